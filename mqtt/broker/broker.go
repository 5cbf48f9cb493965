// Package broker is an MQTT broker inside the gateway, for a robot or a bench that has no other. It owns its
// listener, its accounts and who may do what; the protocol, 3.1.1 and 5, is mochi's.
//
// Without accounts anyone may do anything, which is why such a broker listens on this machine only. With
// accounts everyone needs one, from wherever he comes. Retained messages and sessions live as long as the
// process.
package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
)

// Bounds that keep one client from harming the others, or the gateway.
const (
	maxClients   = 1024
	maxPacket    = 1 << 20               // bytes; whoever sends more is disconnected
	helloTimeout = 10 * time.Second      // from a connection to its CONNECT
	acceptPause  = 50 * time.Millisecond // after a failure to accept
	never        = 100 * 365 * 24 * time.Hour
)

// Config says where to listen and for whom.
type Config struct {
	// Listen is host:port; port 0 is any free one.
	Listen string

	// Accounts are those who may connect. Without any, Listen must be on this machine.
	Accounts []Account

	// CertFile and KeyFile, PEM, make the listener speak TLS. Empty: plain TCP.
	CertFile, KeyFile string
}

// Broker is a broker that listens from New on and serves while Run runs.
type Broker struct {
	server   *mochi.Server
	listener *listener
}

// New checks the configuration and listens. If the address is taken the error is syscall.EADDRINUSE.
func New(cfg Config, log *slog.Logger) (*Broker, error) {
	accounts, err := newAccounts(cfg.Accounts)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	var secured *tls.Config
	if cfg.CertFile != "" || cfg.KeyFile != "" {
		own, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("broker: %w", err)
		}
		secured = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	}
	plain, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	if at, ok := plain.Addr().(*net.TCPAddr); len(cfg.Accounts) == 0 && (!ok || !at.IP.IsLoopback()) {
		_ = plain.Close()
		return nil, fmt.Errorf("broker: %s can be reached from other machines: want accounts, or a loopback address", cfg.Listen)
	}
	can := mochi.NewDefaultServerCapabilities()
	can.MaximumClients = maxClients
	can.MaximumPacketSize = maxPacket
	can.MaximumMessageExpiryInterval = 0 // else retained messages vanish after a day
	server := mochi.New(&mochi.Options{
		Capabilities:           can,
		Logger:                 slog.New(newHandler(log.Handler())),
		SysTopicResendInterval: int64(never.Seconds()), // $SYS: once, since each stops the whole process for an instant
	})
	l := newListener(plain, secured, &server.Listeners.ClientsWg, log)
	if err := errors.Join(server.AddHook(accounts, nil), server.AddHook(new(retained), nil), server.AddListener(l)); err != nil {
		_ = plain.Close()
		return nil, fmt.Errorf("broker: %w", err)
	}
	return &Broker{server: server, listener: l}, nil
}

// Addr is where the broker listens.
func (b *Broker) Addr() net.Addr { return b.listener.net.Addr() }

// Run serves until ctx ends, then disconnects everyone. It is called once; a broker that is never run is to
// be closed.
func (b *Broker) Run(ctx context.Context) error {
	if err := b.server.Serve(); err != nil {
		_ = b.listener.net.Close()
		return fmt.Errorf("broker: %w", err)
	}
	<-ctx.Done()
	b.drain()
	return b.server.Close()
}

// drain lets the clients take what is on its way to them: the last messages before the end are worth most.
// The library tells no queue's length, so it is taken to be empty when nothing has been sent for a while.
func (b *Broker) drain() {
	const still, longest = 25 * time.Millisecond, 250 * time.Millisecond
	for end, last := time.Now().Add(longest), int64(-1); time.Now().Before(end); time.Sleep(still) {
		sent := atomic.LoadInt64(&b.server.Info.PacketsSent)
		if sent == last {
			return
		}
		last = sent
	}
}

// Close stops listening. It is for a broker that is never run.
func (b *Broker) Close() error { return b.listener.net.Close() }
