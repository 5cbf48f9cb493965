package configs

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Where the gateway listens if the file does not say: on this machine only.
const (
	DefaultHTTP   = "127.0.0.1:9743"
	DefaultBroker = "127.0.0.1:1883"
)

// HTTP is the page, the state document and the metrics.
type HTTP struct {
	Listen string `yaml:"listen"` // host:port; empty serves nothing
}

// MQTT is the client, and the broker if the gateway brings its own. Exactly one of Broker and Embedded is
// set.
type MQTT struct {
	Broker   string    `yaml:"broker"`   // tcp://, ssl://, ws:// or wss://host:port
	Embedded *Embedded `yaml:"embedded"` // nil: none

	ClientID     string `yaml:"client_id"`     // unique at the broker; hilgate-<robot> by default
	Username     string `yaml:"username"`      // empty: anonymous
	PasswordFile string `yaml:"password_file"` // its first line is the password
	CAFile       string `yaml:"ca_file"`       // PEM; empty: the system's
	CertFile     string `yaml:"cert_file"`     // PEM, of this client, with KeyFile
	KeyFile      string `yaml:"key_file"`

	Prefix    string        `yaml:"prefix"`    // before every topic: "site/hall"; empty: none
	Rate      float64       `yaml:"rate"`      // Hz, at most, of each battery's state; a change of status does not wait
	KeepAlive time.Duration `yaml:"keepalive"` // between two signs of life to the broker
}

// Embedded is the gateway's own broker.
type Embedded struct {
	Listen   string   `yaml:"listen"`
	Accounts Accounts `yaml:"accounts"` // none: anonymous, on this machine only
}

// Account is someone who may use the embedded broker.
type Account struct {
	Name         string `yaml:"-"`
	PasswordFile string `yaml:"password_file"` // its first line is the password, or its hash as package broker reads it
}

// Accounts are the accounts of the embedded broker, in the order of the file.
type Accounts []Account

// UnmarshalYAML decodes the section.
func (a *Accounts) UnmarshalYAML(n *yaml.Node) (err error) {
	*a, err = entries(n, func(name string) Account { return Account{Name: name} })
	return err
}

// Defaults and bounds of MQTT. Fifty a second is the rate of Gazebo's battery topic; a broker gives a
// client up after one and a half times its keepalive (MQTT 3.1.1, §3.1.2.10).
const (
	defaultRate                = 5 // Hz
	minStateRate, maxStateRate = 0.1, 50
	defaultKeepAlive           = 15 * time.Second
	minKeepAlive, maxKeepAlive = time.Second, 10 * time.Minute
)

// UnmarshalYAML decodes the section onto its defaults.
func (m *MQTT) UnmarshalYAML(n *yaml.Node) error {
	type plain MQTT
	p := plain{Rate: defaultRate, KeepAlive: defaultKeepAlive}
	err := n.Load(&p, limits())
	*m = MQTT(p)
	return err
}

// UnmarshalYAML decodes the section onto its defaults.
func (e *Embedded) UnmarshalYAML(n *yaml.Node) error {
	type plain Embedded
	p := plain{Listen: DefaultBroker}
	err := n.Load(&p, limits())
	*e = Embedded(p)
	return err
}

func (c *checker) http() {
	if c.file.HTTP.Listen == "" {
		return
	}
	c.listen("http.listen", c.file.HTTP.Listen)
	if m := c.file.MQTT; m != nil && m.Embedded != nil && m.Embedded.Listen == c.file.HTTP.Listen && !strings.HasSuffix(m.Embedded.Listen, ":0") {
		c.faultf("http.listen", "%s: the embedded broker listens there", c.file.HTTP.Listen)
	}
}

// listen checks an address to listen on, and reports whether others than this machine can reach it.
func (c *checker) listen(path, address string) (open bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		c.faultf(path, "%s: want host:port", address)
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		c.faultf(path, "%s: want a port from 0 to 65535, where 0 is any free one", address)
	}
	if host == "" {
		c.faultf(path, "%s: want a host; to be reached from everywhere, 0.0.0.0 or [::]", address)
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsLoopback()
	}
	return host != "localhost"
}

var (
	prefixText   = regexp.MustCompile(`^[a-z0-9_-]{1,64}(/[a-z0-9_-]{1,64})*$`)
	clientIDText = regexp.MustCompile(`^[ -~]{1,128}$`)
	plainSchemes = []string{"tcp", "mqtt", "ws"}
	tlsSchemes   = []string{"ssl", "tls", "mqtts", "wss"}
)

func (c *checker) mqtt() {
	m := c.file.MQTT
	if m == nil {
		return
	}
	if m.ClientID == "" {
		m.ClientID = "hilgate-" + c.file.Robot
	}
	if !clientIDText.MatchString(m.ClientID) {
		c.faultf("mqtt.client_id", "%q: want 1 to 128 printable characters", m.ClientID)
	}
	if m.Prefix != "" && !prefixText.MatchString(m.Prefix) {
		c.faultf("mqtt.prefix", "%q: want levels of a-z, 0-9, _ and - with / between them, and none at the ends", m.Prefix)
	}
	if !(m.Rate >= minStateRate && m.Rate <= maxStateRate) {
		c.faultf("mqtt.rate", "%v Hz: want %v to %v", m.Rate, minStateRate, maxStateRate)
	}
	c.within("mqtt.keepalive", m.KeepAlive, minKeepAlive, maxKeepAlive)
	switch {
	case m.Broker == "" && m.Embedded == nil:
		c.faultf("mqtt", "want a broker, as tcp://localhost:1883, or embedded")
	case m.Broker != "" && m.Embedded != nil:
		c.faultf("mqtt.broker", "there is an embedded broker too: want one of them")
	case m.Broker != "":
		c.broker(m)
	default:
		c.embedded(m)
	}
	if m.Username == "" && m.PasswordFile != "" {
		c.faultf("mqtt.password_file", "%s: want a username too", m.PasswordFile)
	}
}

func (c *checker) broker(m *MQTT) {
	// The URL is not printed whole: it may hold a password.
	u, err := url.Parse(m.Broker)
	if err != nil {
		c.faultf("mqtt.broker", "want a URL, as tcp://localhost:1883")
		return
	}
	secure := slices.Contains(tlsSchemes, u.Scheme)
	switch {
	case !secure && !slices.Contains(plainSchemes, u.Scheme):
		c.faultf("mqtt.broker", "%q: want one of %s, or with TLS %s", u.Scheme,
			strings.Join(plainSchemes, ", "), strings.Join(tlsSchemes, ", "))
	case u.Hostname() == "":
		c.faultf("mqtt.broker", "no host: want a URL, as %s://localhost:1883", u.Scheme)
	case u.User != nil:
		c.faultf("mqtt.broker", "holds a user: want username and password_file")
	}
	if (m.CertFile == "") != (m.KeyFile == "") {
		c.faultf("mqtt.cert_file", "want both cert_file and key_file, or neither")
	}
	if !secure {
		for _, key := range []string{"ca_file", "cert_file", "key_file"} {
			if c.has("mqtt." + key) {
				c.faultf("mqtt."+key, "%s:// does not use TLS: want ssl:// or wss://", u.Scheme)
			}
		}
	}
}

func (c *checker) embedded(m *MQTT) {
	open := c.listen("mqtt.embedded.listen", m.Embedded.Listen)
	if open && len(m.Embedded.Accounts) == 0 {
		c.faultf("mqtt.embedded.listen", "%s: without accounts the broker is for this machine only: want accounts, or 127.0.0.1", m.Embedded.Listen)
	}
	for _, a := range m.Embedded.Accounts {
		at := "mqtt.embedded.accounts." + a.Name
		c.name(at, a.Name)
		if a.PasswordFile == "" {
			c.faultf(at+".password_file", "missing: want the file that holds the password")
		}
	}
	for _, key := range []string{"username", "password_file", "ca_file", "cert_file", "key_file"} {
		if c.has("mqtt." + key) {
			c.faultf("mqtt."+key, "is for another broker than the embedded one")
		}
	}
}

// topic checks a topic that the gateway subscribes beside its own.
func (c *checker) topic(path, topic string) {
	if topic == "" || len(topic) > 256 || strings.ContainsAny(topic, "+#\x00") {
		c.faultf(path, "%q: want a topic of up to 256 bytes without + and #", topic)
	}
}
