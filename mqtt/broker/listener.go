package broker

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/listeners"
)

// listener brings connections to the broker. It goes on accepting whatever happens to one connection or, for
// a while, to the process; it drops a connection that does not say CONNECT in time; and it ends in order:
// after Close no connection is left, and none is made.
type listener struct {
	net     net.Listener
	secured *tls.Config     // nil: plain
	clients *sync.WaitGroup // that the broker waits for when it ends
	log     *slog.Logger
	closed  chan struct{}
	done    chan struct{} // closed when Serve has returned

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newListener(l net.Listener, secured *tls.Config, clients *sync.WaitGroup, log *slog.Logger) *listener {
	return &listener{
		net: l, secured: secured, clients: clients, log: log,
		closed: make(chan struct{}), done: make(chan struct{}), conns: make(map[net.Conn]struct{}),
	}
}

// Init does nothing: the listener listens already.
func (l *listener) Init(*slog.Logger) error { return nil }

// ID names the listener.
func (l *listener) ID() string { return "mqtt" }

// Address is where it listens.
func (l *listener) Address() string { return l.net.Addr().String() }

// Protocol is what it listens on.
func (l *listener) Protocol() string { return l.net.Addr().Network() }

// Serve accepts connections until Close.
func (l *listener) Serve(establish listeners.EstablishFn) {
	defer close(l.done)
	for {
		conn, err := l.net.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of file descriptors, as a rule
			l.log.Warn("cannot accept a connection", "err", err)
			select {
			case <-l.closed:
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		// The broker sets the deadline anew with each packet from CONNECT on. If this one cannot be set the
		// connection is gone, as the broker will find.
		_ = conn.SetDeadline(time.Now().Add(helloTimeout))
		l.mu.Lock()
		l.conns[conn] = struct{}{}
		l.mu.Unlock()
		l.clients.Add(1) // here, where it cannot come after the broker waits
		go l.client(conn, establish)
	}
}

// client lives as long as one connection.
func (l *listener) client(conn net.Conn, establish listeners.EstablishFn) {
	defer l.clients.Done()
	bytes := conn
	if l.secured != nil {
		bytes = tls.Server(conn, l.secured)
	}
	err := establish(l.ID(), bytes)
	l.log.Debug("connection ended", "remote", conn.RemoteAddr().String(), "err", err)
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// Close stops accepting and ends all connections: in order those whose clients the broker knows, then the
// others.
func (l *listener) Close(clients listeners.CloseFn) {
	close(l.closed)
	_ = l.net.Close()
	<-l.done
	clients(l.ID())
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close()
	}
}
