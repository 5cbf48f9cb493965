//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The end-to-end tests run the built binary, unchanged, as its users do, beside real programs.

var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "gateway")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// need finds a program that a test runs, or skips the test and names it; with HIL_TEST_ALL set it fails.
func need(t testing.TB, program string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if info, err := os.Stat(filepath.Join(dir, program)); err == nil && !info.IsDir() {
			return filepath.Join(dir, program)
		}
	}
	lacking(t, program+" is not installed")
	return ""
}

func lacking(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("HIL_TEST_ALL") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// eventually waits until ok is true.
func eventually(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
		runtime.Gosched()
		time.Sleep(2 * time.Millisecond)
	}
}

// printed is a line of output.
type printed struct {
	at   time.Time
	text string
}

// process is a program under test with everything that it has printed.
type process struct {
	*exec.Cmd
	mu    sync.Mutex
	lines []printed
	done  chan struct{}
	err   error
}

// start runs a program; what still runs at the end of the test is stopped, or else killed.
func start(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(program, args...), done: make(chan struct{})}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout, p.Stderr = writer, writer
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	all := make(chan struct{})
	go func() {
		defer close(all)
		in := bufio.NewReader(reader)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				p.mu.Lock()
				p.lines = append(p.lines, printed{time.Now(), strings.TrimRight(line, "\n")})
				p.mu.Unlock()
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		p.err = p.Wait()
		<-all
		reader.Close()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(5 * time.Second):
			p.Process.Kill()
			<-p.done
		}
		if t.Failed() {
			t.Logf("%s %s printed:\n%s", filepath.Base(program), strings.Join(args, " "), tail(p.output(), 6000))
		}
	})
	return p
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, l := range p.lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

// find returns the printed lines that contain text.
func (p *process) find(text string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	for _, l := range p.lines {
		if strings.Contains(l.text, text) {
			found = append(found, l.text)
		}
	}
	return found
}

func (p *process) waitFor(t testing.TB, d time.Duration, text string) string {
	t.Helper()
	eventually(t, d, fmt.Sprintf("%q printed by %s", text, filepath.Base(p.Path)), func() bool {
		select {
		case <-p.done:
			if len(p.find(text)) == 0 {
				t.Fatalf("%s ended (%v) before it printed %q", filepath.Base(p.Path), p.err, text)
			}
		default:
		}
		return len(p.find(text)) > 0
	})
	return p.find(text)[0]
}

// exit waits for the end and returns the exit status.
func (p *process) exit(t testing.TB, d time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(d):
		t.Fatalf("%s still runs after %v", filepath.Base(p.Path), d)
	}
	var status *exec.ExitError
	if errors.As(p.err, &status) {
		return status.ExitCode()
	}
	return 0
}

func gateway(t testing.TB, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, path, args...)
}

// freePort is a loopback port that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// mosquitto starts a broker of its own and returns its address.
func mosquitto(t testing.TB) (port int, broker *process) {
	t.Helper()
	program := need(t, "mosquitto")
	port = freePort(t)
	return port, startMosquitto(t, program, port)
}

func startMosquitto(t testing.TB, program string, port int) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mosquitto.conf")
	write(t, file, fmt.Sprintf("listener %d 127.0.0.1\nallow_anonymous true\nlog_dest stderr\nmax_queued_messages 0\n", port))
	p := start(t, program, "-c", file)
	eventually(t, 10*time.Second, "mosquitto listens", func() bool { return listens(port) })
	return p
}

func listens(port int) bool {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// subscriber is a mosquitto_sub that has been listening since before it was returned.
type subscriber struct{ *process }

func subscribe(t testing.TB, port int, topics ...string) subscriber {
	t.Helper()
	args := []string{"-p", fmt.Sprint(port), "-q", "1", "-F", "%r %t %p", "-t", "test/ready"}
	for _, topic := range topics {
		args = append(args, "-t", topic)
	}
	s := subscriber{start(t, need(t, "mosquitto_sub"), args...)}
	eventually(t, 10*time.Second, "mosquitto_sub receives", func() bool {
		publish(t, port, "test/ready", "x")
		return len(s.find("test/ready x")) > 0
	})
	return s
}

// on returns the payloads received on a topic, oldest first.
func (s subscriber) on(topic string) []string {
	var all []string
	for _, l := range s.find(" " + topic + " ") {
		if _, rest, ok := strings.Cut(l, " "+topic+" "); ok {
			all = append(all, rest)
		}
	}
	return all
}

// arrived returns the payloads received on a topic with when they came, oldest first.
func (s subscriber) arrived(topic string) []printed {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []printed
	for _, l := range s.lines {
		if _, rest, ok := strings.Cut(l.text, " "+topic+" "); ok {
			all = append(all, printed{l.at, rest})
		}
	}
	return all
}

// last is the newest payload on a topic; empty if there is none.
func (s subscriber) last(topic string) string {
	all := s.on(topic)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func publish(t testing.TB, port int, topic, payload string, more ...string) {
	t.Helper()
	args := append([]string{"-p", fmt.Sprint(port), "-q", "1", "-t", topic, "-s"}, more...)
	if payload == "" {
		args[6] = "-n" // nothing, instead of what stands on standard input
	}
	cmd := exec.Command(need(t, "mosquitto_pub"), args...)
	cmd.Stdin = strings.NewReader(payload)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_pub %s: %v %s", topic, err, out)
	}
}

// fetch gets a page.
func fetch(t testing.TB, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// document fetches JSON into a tree.
func document(t testing.TB, url string) tree {
	t.Helper()
	code, body := fetch(t, url)
	var v any
	if code != http.StatusOK || json.Unmarshal([]byte(body), &v) != nil {
		return tree{}
	}
	return tree{v}
}

func parse(text string) tree {
	var v any
	dec := json.NewDecoder(bytes.NewBufferString(text))
	if dec.Decode(&v) != nil {
		return tree{}
	}
	return tree{v}
}

// tree is a JSON value that can be walked without asking at each step.
type tree struct{ v any }

func (n tree) at(path ...any) tree {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := n.v.(map[string]any)
			n = tree{m[step]}
		case int:
			l, _ := n.v.([]any)
			if step >= len(l) {
				return tree{}
			}
			n = tree{l[step]}
		}
	}
	return n
}

func (n tree) float() float64 { f, _ := n.v.(float64); return f }
func (n tree) text() string   { s, _ := n.v.(string); return s }
func (n tree) true() bool     { b, _ := n.v.(bool); return b }
func (n tree) known() bool    { return n.v != nil }

func (n tree) has(name string) bool {
	l, _ := n.v.([]any)
	for _, e := range l {
		if e == name {
			return true
		}
	}
	return false
}

func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
