package mqtt

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/gorilla/websocket"

	"hilgate/mqtt/broker"
)

// runFor runs a client in virtual time with a dialler of its own, and returns how often it dialled and what
// it logged.
func runFor(t *testing.T, span time.Duration, d dialer) (dials []time.Duration, c *Client, log string) {
	t.Helper()
	var logged safeBuffer
	synctest.Test(t, func(t *testing.T) {
		r := newRobot()
		var err error
		c, err = New(Config{Broker: "tcp://broker", Robot: "rover", Latest: r.latest, Changed: r.onChange}, r,
			slog.New(slog.NewTextHandler(&logged, nil)))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		c.dial = func(ctx context.Context, broker *url.URL, config *tls.Config) (net.Conn, error) {
			dials = append(dials, time.Since(began))
			return d(ctx, broker, config)
		}
		ctx, cancel := context.WithTimeout(t.Context(), span)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		time.Sleep(time.Minute) // for the library's goroutines
	})
	return dials, c, logged.String()
}

func TestPausesBetweenAttemptsGrow(t *testing.T) {
	dials, c, log := runFor(t, 10*time.Minute, func(context.Context, *url.URL, *tls.Config) (net.Conn, error) {
		return nil, errors.New("no route to host")
	})
	if len(dials) < 60 || len(dials) > 130 {
		t.Errorf("%d attempts in ten minutes", len(dials))
	}
	pause := firstPause
	for i := 1; i < len(dials); i++ {
		if p := dials[i] - dials[i-1]; p < pause/2 || p > pause {
			t.Errorf("pause %d is %v, want %v to %v", i, p, pause/2, pause)
		}
		pause = min(2*pause, mostPause)
	}
	if n := strings.Count(log, "no route to host"); n != 1 {
		t.Errorf("the same failure is logged %d times:\n%s", n, log)
	}
	if c.Stats().Dropped == 0 {
		t.Error("nothing was counted as dropped")
	}
}

// accept answers CONNECT and all else that wants an answer, and lets the connection go after a while.
func accept(t *testing.T, conn net.Conn, span time.Duration) {
	defer conn.Close()
	if _, err := packets.ReadPacket(conn); err != nil {
		t.Errorf("CONNECT: %v", err)
		return
	}
	packets.NewControlPacket(packets.Connack).Write(conn)
	time.AfterFunc(span, func() { conn.Close() })
	for {
		p, err := packets.ReadPacket(conn)
		if err != nil {
			return
		}
		switch p := p.(type) {
		case *packets.SubscribePacket:
			ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
			ack.MessageID, ack.ReturnCodes = p.MessageID, make([]byte, len(p.Topics))
			ack.ReturnCodes[0] = 0x80
			ack.Write(conn)
		case *packets.PublishPacket:
			if p.Qos == 1 {
				ack := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
				ack.MessageID = p.MessageID
				ack.Write(conn)
			}
		case *packets.PingreqPacket:
			packets.NewControlPacket(packets.Pingresp).Write(conn)
		}
	}
}

func TestSecondClientOfTheSameIDIsSuspected(t *testing.T) {
	_, c, log := runFor(t, time.Minute, func(context.Context, *url.URL, *tls.Config) (net.Conn, error) {
		near, far := net.Pipe()
		go accept(t, far, 500*time.Millisecond)
		return near, nil
	})
	if !strings.Contains(log, "another client uses the same client id") || !strings.Contains(log, "client_id=hilgate-rover") {
		t.Errorf("it is not said:\n%s", log)
	}
	if s := c.Stats(); s.Losses < manyLosses || s.Connects < s.Losses || s.Connected {
		t.Errorf("%+v", s)
	}
}

func TestSessionThatLastedIsNotSuspected(t *testing.T) {
	dials, _, log := runFor(t, 2*time.Minute, func(context.Context, *url.URL, *tls.Config) (net.Conn, error) {
		near, far := net.Pipe()
		go accept(t, far, 5*time.Second)
		return near, nil
	})
	if strings.Contains(log, "another client") {
		t.Error(log)
	}
	if len(dials) < 20 {
		t.Errorf("%d connections of 5 s in two minutes", len(dials))
	}
}

func TestRefusedSubscriptionIsSaid(t *testing.T) {
	_, _, log := runFor(t, time.Minute, func(context.Context, *url.URL, *tls.Config) (net.Conn, error) {
		near, far := net.Pipe()
		go accept(t, far, time.Hour)
		return near, nil
	})
	if strings.Count(log, "refuses a subscription") != 1 {
		t.Error(log)
	}
}

func TestBrokerThatStopsReadingDoesNotHoldTheEnd(t *testing.T) {
	var took time.Duration
	synctest.Test(t, func(t *testing.T) {
		r := newRobot()
		c, err := New(Config{Broker: "tcp://broker", Robot: "rover", Latest: r.latest, Changed: r.onChange}, r, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		c.dial = func(context.Context, *url.URL, *tls.Config) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				packets.ReadPacket(far)
				packets.NewControlPacket(packets.Connack).Write(far)
			}()
			return near, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Run(ctx) }()
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		cancel()
		<-done
		took = time.Since(began)
		time.Sleep(time.Minute)
	})
	if took > farewell+2*roomTimeout {
		t.Errorf("leaving took %v", took)
	}
}

// bridge passes the bytes of WebSocket connections on to a broker, as a reverse proxy does.
func bridge(t *testing.T, address string) *httptest.Server {
	up := websocket.Upgrader{Subprotocols: []string{"mqtt"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer conn.Close()
		go func() {
			defer ws.Close()
			buf := make([]byte, 100)
			for {
				n, err := conn.Read(buf)
				if err != nil || ws.WriteMessage(websocket.BinaryMessage, buf[:n]) != nil {
					return
				}
			}
		}()
		for {
			_, message, err := ws.ReadMessage()
			if err != nil {
				return
			}
			if _, err := conn.Write(message); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestClientSpeaksThroughWebSockets(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	proxy := bridge(t, b.Addr().String())
	r := newRobot()
	c, stop := startClient(t, b.Addr().String(), r, func(c *Config) { c.Broker = "ws" + strings.TrimPrefix(proxy.URL, "http") + "/mqtt" })
	l := listen(t, b.Addr().String(), "#")
	l.until(t, root+"gateway/availability", "online")
	l.say(t, root+"battery/main/drain/start", "")
	l.until(t, root+"rsp/any", "accepted")
	stop()
	l.until(t, root+"gateway/availability", "offline")
	if s := c.Stats(); s.Connects != 1 || s.Losses != 0 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}

// certificate makes a certificate for 127.0.0.1, signed by itself, and returns its files.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, bytes []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private)
}

func TestClientSpeaksTLSAndGivesItsPassword(t *testing.T) {
	certFile, keyFile := certificate(t)
	b, err := broker.New(broker.Config{
		Listen: "127.0.0.1:0", CertFile: certFile, KeyFile: keyFile,
		Accounts: []broker.Account{{Name: "rover", Password: "hunter2"}},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	defer func() { cancel(); <-done }()

	asked := 0
	for name, c := range map[string]struct {
		tls      TLS
		password string
		want     string
	}{
		"trusted":        {TLS{CAFile: certFile, CertFile: certFile, KeyFile: keyFile}, "hunter2", "msg=connected"},
		"wrong password": {TLS{CAFile: certFile}, "hunter3", "not Authorized"},
		"not trusted":    {TLS{}, "hunter2", "certificate"},
		"no such file":   {TLS{CAFile: certFile + "x"}, "hunter2", "no such file"},
		"not a CA":       {TLS{CAFile: keyFile}, "hunter2", "holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			var logged safeBuffer
			r := newRobot()
			client, err := New(Config{
				Broker: "ssl://" + b.Addr().String(), Robot: "rover", Latest: r.latest, Changed: r.onChange, TLS: c.tls,
				Username: "rover", Password: func() (string, error) { asked++; return c.password, nil },
			}, r, slog.New(slog.NewTextHandler(&logged, nil)))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); client.Run(ctx) }()

			eventually(t, c.want, func() bool { return strings.Contains(logged.String(), c.want) })
			cancel()
			<-done
			if strings.Contains(logged.String(), c.password) {
				t.Errorf("the password is in the log:\n%s", logged.String())
			}
		})
	}
	if asked == 0 {
		t.Error("the password was not asked for")
	}
}
