// Package mqtt connects the gateway to an MQTT broker: it publishes what views make of each snapshot, and
// hands commands to whoever carries them out. It speaks MQTT 3.1.1; topics and payloads are package wire's.
//
// One goroutine, Run, owns all state. What the library's goroutines receive goes to it through one bounded
// channel, in order; the last places of that channel only carry refusals, so that a flood of commands is
// answered and not obeyed. An emergency stop takes none of it: it is engaged in the very callback.
//
// A connection is made anew for ever, with growing pauses. Each is a session of its own, with nothing left
// over from the one before: no message of yesterday is sent after a reconnection, and everything that is
// retained is published again, the gateway's own "online" last. While there is no connection, messages are
// left out and counted. When Run ends it publishes the last snapshot and "offline" and disconnects; if the
// broker does not confirm that in time, the connection is cut instead, so that the broker publishes the will,
// which says the same.
//
// Retained commands are refused, since whoever gave them may be long gone. Only an emergency stop is obeyed
// even then.
package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"hilgate/model"
	"hilgate/model/unit"
	"hilgate/mqtt/wire"
)

// Handler carries out commands. Errors are told to whoever gave the command, as they are. Names of batteries
// and consumers are as the snapshot has them, or as the command had them if the snapshot has none such.
//
// EStop is called from a goroutine of its own, at any time; it should return within milliseconds. The other
// methods are called one after the other.
type Handler interface {
	// Follow takes a trajectory up in place of the one that runs. id is the one that the snapshot will show.
	Follow(m wire.Trajectory) (id uint64, err error)

	EStop(source, reason string)
	ReleaseEStop(confirm string) error

	Recharge(battery string, on bool) error
	Drain(battery string, on bool) error

	Consumer(battery, name string, w unit.Watts) error
	RemoveConsumer(battery, name string) error
}

// Defaults and bounds of Config.
const (
	DefaultKeepAlive    = 15 * time.Second
	DefaultMaxPayload   = 64 << 10 // bytes
	DefaultBatteryRate  = 5.       // Hz
	DefaultEstimateRate = 1.       // Hz
	DefaultJointRate    = 20.      // Hz
	MaxRate             = 50.      // Hz, as Gazebo's battery topic
)

// Config says where to connect, as whom, and what to publish. Zero values are defaults where there is one.
type Config struct {
	Broker   string                 // tcp://, mqtt://, ssl://, tls://, mqtts://, ws:// or wss://, host:port
	ClientID string                 // unique at the broker; hilgate-{robot} by default
	Username string                 // empty is anonymous
	Password func() (string, error) // asked before each connection; nil is none. Never logged
	TLS      TLS

	KeepAlive time.Duration // between two signs of life

	Prefix string // of all topics; may have several levels, or be empty
	Robot  string

	// How often a stream may be published, Hz, up to MaxRate. A change of status does not wait.
	BatteryRate, EstimateRate, JointRate float64

	MaxPayload int // of a command, bytes; up to wire.MaxPayload

	Info  wire.Info
	Views []wire.View // further conventions, beside the gateway's own
	Extra []Extra

	// Latest returns the newest snapshot, nil if there is none yet; Changed a channel that is closed when a
	// newer one exists than at the time of the call.
	Latest  func() *model.Snapshot
	Changed func() <-chan struct{}

	// Acknowledged, if not nil, is told how many seconds the broker took to confirm a message of QoS 1. It
	// is called from a goroutine of its own.
	Acknowledged func(seconds float64)
}

// TLS names the files of a secured connection. They are read before each connection.
type TLS struct {
	CAFile            string // PEM, of who signed the broker's certificate; empty: the system's
	CertFile, KeyFile string // PEM, of the client's own certificate; empty: none
}

// Extra is a further topic on which a command is taken, as Gazebo's power_draining_topic names them.
type Extra struct {
	Topic   string // below the prefix; a leading slash is taken off
	Method  wire.Method
	Battery string
}

// Client is one gateway at one broker.
type Client struct {
	cfg     Config
	broker  *url.URL
	topics  wire.Topics
	views   []wire.View
	extra   map[string]wire.Command
	filters []string
	handler Handler
	log     *slog.Logger
	stats   counters
	inbound chan inbound
	dial    dialer
}

// Places for commands on their way to the client's goroutine. The last ones carry only refusals.
const (
	inboundPlaces = 64
	refusalPlaces = 16
)

// New checks the configuration and returns a client that Run will connect.
func New(cfg Config, h Handler, log *slog.Logger) (*Client, error) {
	u, err := url.Parse(cfg.Broker)
	switch {
	case err != nil:
		return nil, errors.New("mqtt: the broker's address is no URL") // which may hold a password: not shown
	case u.User != nil:
		return nil, errors.New("mqtt: the broker's URL holds a user or a password")
	case !supported(u.Scheme):
		return nil, fmt.Errorf("mqtt: broker: scheme %q: want tcp, mqtt, ssl, tls, mqtts, ws or wss", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("mqtt: broker: no host")
	case (cfg.TLS.CertFile == "") != (cfg.TLS.KeyFile == ""):
		return nil, errors.New("mqtt: TLS: want both a certificate and its key, or neither")
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "hilgate-" + cfg.Robot
	}
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = DefaultKeepAlive
	}
	if cfg.MaxPayload == 0 {
		cfg.MaxPayload = DefaultMaxPayload
	}
	if cfg.MaxPayload < 0 || cfg.MaxPayload > wire.MaxPayload {
		return nil, fmt.Errorf("mqtt: payload limit of %d bytes: want up to %d", cfg.MaxPayload, wire.MaxPayload)
	}
	var periods wire.Periods
	for _, r := range []struct {
		name   string
		hertz  float64
		usual  float64
		period *time.Duration
	}{
		{"battery", cfg.BatteryRate, DefaultBatteryRate, &periods.Battery},
		{"estimate", cfg.EstimateRate, DefaultEstimateRate, &periods.Estimate},
		{"joint", cfg.JointRate, DefaultJointRate, &periods.Joints},
	} {
		if r.hertz == 0 {
			r.hertz = r.usual
		}
		if !(r.hertz > 0 && r.hertz <= MaxRate) {
			return nil, fmt.Errorf("mqtt: %s rate of %v Hz: want above 0 up to %v", r.name, r.hertz, MaxRate)
		}
		*r.period = time.Duration(float64(time.Second) / r.hertz)
	}
	topics := wire.NewTopics(cfg.Prefix, cfg.Robot)
	c := &Client{
		cfg: cfg, broker: u, topics: topics, handler: h, log: log, dial: dial,
		views:   append([]wire.View{wire.NewView(topics, periods)}, cfg.Views...),
		extra:   make(map[string]wire.Command),
		filters: topics.Commands(),
		inbound: make(chan inbound, inboundPlaces),
	}
	for _, e := range cfg.Extra {
		topic := topics.Extra(e.Topic)
		if _, known := topics.Parse(topic); known {
			continue
		}
		if _, twice := c.extra[topic]; !twice {
			c.filters = append(c.filters, topic)
		}
		c.extra[topic] = wire.Command{Method: e.Method, Name: e.Method.String(), Battery: e.Battery}
	}
	return c, nil
}

// Topics returns the topics of this client's robot.
func (c *Client) Topics() wire.Topics { return c.topics }

// Stats returns what the client has counted. It may be called at any time, from any goroutine.
func (c *Client) Stats() Stats { return c.stats.read() }

// Run keeps the client connected until ctx ends, and then takes leave of the broker, which takes up to half
// a second, or a little more from a connection that hangs. It returns nil: there is no failure that a retry
// may not mend.
func (c *Client) Run(ctx context.Context) error {
	r := newRunner(c)
	defer r.timer.Stop()
	defer r.retry.Stop()
	changed := c.cfg.Changed()
	r.connect(ctx)
	r.publish(time.Now())
	for {
		select {
		case <-ctx.Done():
			r.leave()
			return nil
		case <-r.connected():
			r.up()
		case err := <-r.session.lost:
			r.down(err)
		case <-r.retry.C:
			r.connect(ctx)
		case <-changed:
			changed = c.cfg.Changed()
			r.publish(time.Now())
		case <-r.timer.C:
			r.publish(time.Now())
		case in := <-c.inbound:
			r.command(in)
		}
	}
}
