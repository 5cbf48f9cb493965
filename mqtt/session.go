package mqtt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"hilgate/mqtt/wire"
)

// Bounds of one connection.
const (
	dialTimeout  = 5 * time.Second // for the connection, and again for the broker's answer
	pingTimeout  = 5 * time.Second
	roomTimeout  = time.Second     // until the library takes a message
	writeTimeout = 2 * time.Second // for room in the socket's buffer
	mostPending  = 256             // messages of QoS 1 that the broker has not confirmed
)

// session is one connection, or one attempt at it. It is used once.
type session struct {
	client paho.Client
	token  paho.Token // of the attempt
	up     bool
	broken bool // nothing more can be sent: the loss is on its way to lost
	since  time.Time
	lost   chan error
	cancel context.CancelFunc // ends a dialling

	pending chan pending // to watch
	watcher sync.WaitGroup
	ended   chan struct{} // closed by close

	// Empty messages that were published to clear a topic that is also heard: they come back once each.
	clears map[string]int

	mu   sync.Mutex
	conn net.Conn
}

// pending is a message on its way.
type pending struct {
	token paho.Token
	at    time.Time
}

// confirmed reports whether the broker has the message.
func (p *pending) confirmed() bool {
	select {
	case <-p.token.Done():
		return p.token.Error() == nil
	default:
		return false
	}
}

// dialer opens the byte stream to a broker.
type dialer func(ctx context.Context, broker *url.URL, config *tls.Config) (net.Conn, error)

// secured are the schemes that speak TLS.
func secured(scheme string) bool {
	switch scheme {
	case "ssl", "tls", "mqtts", "wss":
		return true
	}
	return false
}

func supported(scheme string) bool {
	switch scheme {
	case "tcp", "mqtt", "ws":
		return true
	}
	return secured(scheme)
}

func dial(ctx context.Context, broker *url.URL, config *tls.Config) (net.Conn, error) {
	switch broker.Scheme {
	case "ws", "wss":
		return paho.NewWebsocket(broker.String(), config, dialTimeout, nil, nil)
	}
	port := "1883"
	if secured(broker.Scheme) {
		port = "8883"
	}
	if p := broker.Port(); p != "" {
		port = p
	}
	address := net.JoinHostPort(broker.Hostname(), port)
	plain := net.Dialer{Timeout: dialTimeout}
	if secured(broker.Scheme) {
		return (&tls.Dialer{NetDialer: &plain, Config: config}).DialContext(ctx, "tcp", address)
	}
	return plain.DialContext(ctx, "tcp", address)
}

// load reads the files of a secured connection.
func (t *TLS) load(host string) (*tls.Config, error) {
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: holds no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" {
		own, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s with %s: %w", t.CertFile, t.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// open begins to connect. The outcome is the session's token.
func (c *Client) open(ctx context.Context) (*session, error) {
	var config *tls.Config
	if secured(c.broker.Scheme) {
		var err error
		if config, err = c.cfg.TLS.load(c.broker.Hostname()); err != nil {
			return nil, err
		}
	}
	password := ""
	if c.cfg.Password != nil {
		var err error
		if password, err = c.cfg.Password(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ended by close alone: leaving takes a while
	s := &session{
		cancel: cancel, lost: make(chan error, 1), pending: make(chan pending, mostPending),
		clears: make(map[string]int), ended: make(chan struct{}),
	}
	o := paho.NewClientOptions()
	o.Servers = []*url.URL{c.broker}
	o.SetClientID(c.cfg.ClientID)
	o.SetUsername(c.cfg.Username)
	o.SetPassword(password)
	o.SetProtocolVersion(4) // 3.1.1
	o.SetCleanSession(true)
	o.SetAutoReconnect(false) // see the package comment: each session begins from nothing
	o.SetKeepAlive(c.cfg.KeepAlive)
	o.SetPingTimeout(pingTimeout)
	o.SetConnectTimeout(dialTimeout)
	o.SetWriteTimeout(roomTimeout)
	o.SetOrderMatters(true) // the handler does not block
	o.SetBinaryWill(c.topics.Robot(wire.GatewayAvailability), []byte(wire.Offline), 1, true)
	o.SetConnectionLostHandler(func(_ paho.Client, err error) { s.lost <- err })
	o.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) { c.receive(s, m) })
	o.SetCustomOpenConnectionFn(func(broker *url.URL, _ paho.ClientOptions) (net.Conn, error) {
		conn, err := c.dial(ctx, broker, config)
		if err != nil {
			return nil, err
		}
		return s.adopt(ctx, limit(conn, c.cfg.MaxPayload))
	})
	s.client = paho.NewClient(o)
	s.token = s.client.Connect()
	return s, nil
}

// adopt keeps the connection so that it can be cut, unless that has been asked for meanwhile.
func (s *session) adopt(ctx context.Context, conn net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		_ = conn.Close()
		return nil, ctx.Err()
	}
	s.conn = conn
	return conn, nil
}

// cut breaks the connection without a word, so that the broker publishes the will.
func (s *session) cut() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close()
	}
}

// close ends everything of the session but what the library ends by itself.
func (s *session) close() {
	s.cut()
	s.up = false
	s.client.Disconnect(0)
	close(s.pending)
	close(s.ended)
	s.watcher.Wait()
}

// watch waits for the confirmation of each message in turn, which is the order in which brokers confirm.
func (s *session) watch(c *Client) {
	for p := range s.pending {
		select {
		case <-p.token.Done():
		case <-s.ended:
		}
		switch {
		case !p.confirmed():
			c.stats.failures.Add(1)
		case c.cfg.Acknowledged != nil:
			c.cfg.Acknowledged(time.Since(p.at).Seconds())
		}
	}
}

// subscribe asks for all commands and watches for the answer.
func (s *session) subscribe(c *Client) {
	filters := make(map[string]byte)
	for _, f := range c.filters {
		filters[f] = 1
	}
	token := s.client.SubscribeMultiple(filters, nil) // which does not wait for the answer
	s.watcher.Go(func() {
		select {
		case <-token.Done():
		case <-s.ended:
			return
		}
		if err := token.Error(); err != nil {
			c.log.Warn("subscription failed", "err", err)
			return
		}
		result := token.(*paho.SubscribeToken).Result()
		for _, f := range c.filters {
			if result[f] > 2 { // MQTT 3.1.1, 3.9.3: 0x80 is failure
				c.log.Error("the broker refuses a subscription: commands on it will not be heard", "filter", f)
			}
		}
	})
}

// send hands a message to the library.
func (s *session) send(topic string, qos byte, retain bool, payload []byte) (delivery, error) {
	if qos > 0 && len(s.pending) == cap(s.pending) {
		return full, nil
	}
	at := time.Now()
	token := s.client.Publish(topic, qos, retain, payload)
	select {
	case <-token.Done():
		if err := token.Error(); err != nil { // the connection hangs, or is gone already
			s.broken = true
			s.cut()
			return dropped, err
		}
	default: // on its way
	}
	if qos > 0 {
		s.pending <- pending{token, at} // has room: this goroutine alone fills it
	}
	return sent, nil
}
