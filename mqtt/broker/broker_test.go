package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// patience bounds every wait; it is reached only on failure.
const patience = 10 * time.Second

// start runs a broker until the test ends, or until stop is called.
func start(t *testing.T, cfg Config, log *slog.Logger) (b *Broker, stop func()) {
	t.Helper()
	b, err := New(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // cleaned up in reverse order
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return b, stop
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// client connects as id; the error is the broker's answer.
func client(t *testing.T, b *Broker, id string, options func(*paho.ClientOptions)) (paho.Client, error) {
	t.Helper()
	o := paho.NewClientOptions().AddBroker("tcp://" + b.Addr().String()).SetClientID(id)
	o.SetProtocolVersion(4).SetAutoReconnect(false).SetConnectTimeout(patience)
	if options != nil {
		options(o)
	}
	c := paho.NewClient(o)
	token := c.Connect()
	if !token.WaitTimeout(patience) {
		t.Fatal("no answer to CONNECT")
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c, token.Error()
}

func wait(t *testing.T, what string, token paho.Token) {
	t.Helper()
	if !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatalf("%s: %v", what, token.Error())
	}
}

// hear subscribes and returns what comes, as "topic payload retained".
func hear(t *testing.T, c paho.Client, filter string) <-chan string {
	t.Helper()
	heard := make(chan string, 100)
	wait(t, "subscribe", c.Subscribe(filter, 1, func(_ paho.Client, m paho.Message) {
		heard <- fmt.Sprintf("%s %s %v", m.Topic(), m.Payload(), m.Retained())
	}))
	return heard
}

func want(t *testing.T, heard <-chan string, message string) {
	t.Helper()
	select {
	case got := <-heard:
		if got != message {
			t.Errorf("heard %q, want %q", got, message)
		}
	case <-time.After(patience):
		t.Fatalf("heard nothing, want %q", message)
	}
}

func TestBrokerKeepsRetainedMessages(t *testing.T) {
	b, _ := start(t, Config{Listen: "127.0.0.1:0"}, quiet())
	c, err := client(t, b, "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "publish", c.Publish("a/b", 1, true, "kept"))
	heard := hear(t, c, "a/+")
	want(t, heard, "a/b kept true")
	wait(t, "publish", c.Publish("a/c", 1, false, "live"))
	want(t, heard, "a/c live false")
}

func TestStoppedBrokerDisconnectsAndListensNoMore(t *testing.T) {
	b, stop := start(t, Config{Listen: "127.0.0.1:0"}, quiet())
	lost := make(chan error, 1)
	if _, err := client(t, b, "one", func(o *paho.ClientOptions) {
		o.SetConnectionLostHandler(func(_ paho.Client, err error) { lost <- err })
	}); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case <-lost:
	case <-time.After(patience):
		t.Error("the client is still connected")
	}
	if _, err := net.DialTimeout("tcp", b.Addr().String(), time.Second); err == nil {
		t.Error("a stopped broker still listens")
	}
}

func TestSubscribingWhileMessagesAreRetainedIsSafe(t *testing.T) { // what the race detector looks at
	b, _ := start(t, Config{Listen: "127.0.0.1:0"}, quiet())
	var all sync.WaitGroup
	for i := range 4 {
		c, err := client(t, b, fmt.Sprint(i), func(o *paho.ClientOptions) { o.SetWill(fmt.Sprint("w/", i), "gone", 1, true) })
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for j := range 50 {
				c.Publish(fmt.Sprintf("r/%d/%d", i, j%10), 1, true, strings.Repeat("x", j%3)).WaitTimeout(patience)
				if !c.Subscribe("#", 1, func(paho.Client, paho.Message) {}).WaitTimeout(patience) {
					t.Error("no answer to SUBSCRIBE")
				}
			}
		})
	}
	all.Wait()
}

func TestWillOfBrokenConnectionIsRetained(t *testing.T) {
	b, _ := start(t, Config{Listen: "127.0.0.1:0"}, quiet())
	var conn net.Conn
	if _, err := client(t, b, "one", func(o *paho.ClientOptions) {
		o.SetWill("w", "gone", 1, true)
		o.SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (_ net.Conn, err error) {
			conn, err = net.Dial("tcp", b.Addr().String())
			return conn, err
		})
	}); err != nil {
		t.Fatal(err)
	}
	watcher, err := client(t, b, "two", nil)
	if err != nil {
		t.Fatal(err)
	}
	heard := hear(t, watcher, "w")
	conn.Close()
	want(t, heard, "w gone false")
	want(t, hear(t, watcher, "+"), "w gone true")
}

func TestBusyPortIsSaid(t *testing.T) {
	b, _ := start(t, Config{Listen: "127.0.0.1:0"}, quiet())
	_, err := New(Config{Listen: b.Addr().String()}, quiet())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), b.Addr().String()) {
		t.Errorf("a second broker on %v: %v", b.Addr(), err)
	}
}

func TestOpenListenerNeedsAccounts(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0"} {
		if _, err := New(Config{Listen: listen}, quiet()); err == nil || !strings.Contains(err.Error(), "want accounts") {
			t.Errorf("%s without accounts: %v", listen, err)
		}
	}
	b, err := New(Config{Listen: "0.0.0.0:0", Accounts: []Account{{Name: "a", Password: "b"}}}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
}

func TestAccountsSayWhoMayDoWhat(t *testing.T) {
	b, _ := start(t, Config{Listen: "127.0.0.1:0", Accounts: []Account{
		{Name: "rover", Password: "pässword"}, {Name: "guest", Password: "look", ReadOnly: true},
	}}, quiet())
	as := func(name, password string) func(*paho.ClientOptions) {
		return func(o *paho.ClientOptions) { o.SetUsername(name).SetPassword(password) }
	}
	for _, no := range [][2]string{{"", ""}, {"rover", ""}, {"rover", "passwort"}, {"stranger", "look"}, {"guest", "pässword"}} {
		if _, err := client(t, b, "no", as(no[0], no[1])); err == nil {
			t.Errorf("%q with %q is let in", no[0], no[1])
		}
	}
	rover, err := client(t, b, "rover", as("rover", "pässword"))
	if err != nil {
		t.Fatal(err)
	}
	guest, err := client(t, b, "guest", as("guest", "look"))
	if err != nil {
		t.Fatal(err)
	}
	heard := hear(t, guest, "#")
	guest.Publish("command", 0, false, "forbidden")
	wait(t, "publish", rover.Publish("state", 1, false, "allowed"))
	want(t, heard, "state allowed false")
	if _, err := client(t, b, "guest2", func(o *paho.ClientOptions) {
		as("guest", "look")(o)
		o.SetWill("command", "forbidden", 1, false)
	}); err == nil {
		t.Error("a read-only account is let in with a will")
	}
}

func TestAccountsReadTheHashesOfMosquitto(t *testing.T) {
	program, err := exec.LookPath("mosquitto_passwd")
	if err != nil {
		missing(t, "mosquitto_passwd")
	}
	file := filepath.Join(t.TempDir(), "passwords")
	if out, err := exec.Command(program, "-c", "-b", file, "rover", "se:cr$et").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	line, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, hash, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
	s, err := newSecret(hash)
	if err != nil {
		t.Fatal(err)
	}
	if !s.matches("se:cr$et") || s.matches("secret") {
		t.Errorf("%s does not match its password, or matches another", hash)
	}
}

// missing skips a test that needs a program, or fails it where all must run.
func missing(t *testing.T, program string) {
	t.Helper()
	if os.Getenv("HIL_TEST_ALL") == "1" {
		t.Fatalf("%s is not installed", program)
	}
	t.Skipf("%s is not installed", program)
}

func TestAccountsRefuseWhatIsNoPassword(t *testing.T) {
	for _, password := range []string{
		"", "$2a$10$abcdefghijklmnopqrstuv", "$6$salt$hash", "$argon2id$v=19$", "$7$", "$7$0$c2FsdA==$aGFzaA==",
		"$7$9999999999$c2FsdA==$aGFzaA==", "$7$101$!$aGFzaA==", "$7$101$c2FsdA==$", "$7$101$c2FsdA==$aGFzaA==$",
	} {
		if _, err := newAccounts([]Account{{Name: "a", Password: password}}); err == nil {
			t.Errorf("%q passes for a password", password)
		}
	}
	for _, list := range [][]Account{{{Password: "p"}}, {{Name: "a", Password: "p"}, {Name: "a", Password: "q"}}} {
		if _, err := newAccounts(list); err == nil {
			t.Errorf("%v are accounts", list)
		}
	}
}

func FuzzNewSecret(f *testing.F) {
	f.Add("secret")
	f.Add("$7$101$c2FsdA==$aGFzaA==")
	f.Add("$7$-1$$")
	f.Fuzz(func(t *testing.T, password string) {
		s, err := newSecret(password)
		if err == nil && s.iterations < 1000 && !strings.HasPrefix(password, "$7$") && !s.matches(password) {
			t.Errorf("%q does not match itself", password)
		}
	})
}

func TestSilentConnectionAndGarbageDoNoHarm(t *testing.T) {
	var logged safeBuffer
	b, _ := start(t, Config{Listen: "127.0.0.1:0"}, slog.New(slog.NewTextHandler(&logged, nil)))
	for _, bytes := range []string{"", "GET / HTTP/1.1\r\n\r\n", "\x10\xff\xff\xff\x7f", "\x30\x00", "\x10\x02\x00\x00"} {
		conn, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte(bytes))
		conn.Close()
	}
	if _, err := client(t, b, "after", nil); err != nil {
		t.Errorf("after garbage: %v", err)
	}
	if text := logged.String(); strings.Contains(text, "password") {
		t.Error(text)
	}
}

func TestConnectionThatSaysNothingDoesNotHoldTheEnd(t *testing.T) {
	b, stop := start(t, Config{Listen: "127.0.0.1:0"}, quiet())
	conn, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	stop()
	if took := time.Since(began); took > helloTimeout/2 {
		t.Errorf("the end took %v", took)
	}
}

func TestOversizePacketEndsOnlyItsConnection(t *testing.T) {
	b, _ := start(t, Config{Listen: "127.0.0.1:0"}, quiet())
	good, err := client(t, b, "good", nil)
	if err != nil {
		t.Fatal(err)
	}
	heard := hear(t, good, "#")
	bad, err := client(t, b, "bad", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token := bad.Publish("big", 1, false, make([]byte, maxPacket)); token.WaitTimeout(patience) && token.Error() == nil {
		t.Error("a packet beyond the limit is taken")
	}
	wait(t, "publish", good.Publish("small", 1, false, "x"))
	want(t, heard, "small x false")
}

// safeBuffer may be written by several goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestLogHoldsNoPackets(t *testing.T) {
	var logged safeBuffer
	log := slog.New(newHandler(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.With("listener", "mqtt").Warn("error processing packet", "pk", "hunter2", "error", errors.New("bad"))
	log.Info("started")
	text := logged.String()
	if strings.Contains(text, "hunter2") || strings.Contains(text, "started") || !strings.Contains(text, "listener=mqtt") {
		t.Error(text)
	}
}
