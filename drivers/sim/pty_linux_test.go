package sim

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newPTY(t *testing.T, p Peer, c PTYConfig) *PTY {
	t.Helper()
	pty, err := NewPTY(NewBench(nil), p, c)
	need(t, err == nil, "pseudo terminals")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- pty.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Run: %v", err)
		}
		if c.Link != "" {
			if _, err := os.Lstat(c.Link); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("after Run the link is still there: %v", err)
			}
		}
	})
	return pty
}

// dial opens a port as a program without a serial library does.
func dial(t *testing.T, path string) *os.File {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { f.Close() })
	if err := f.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return f
}

func ask(t *testing.T, f *os.File, text string) string {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(text))
	if _, err := io.ReadFull(f, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPTYIsRawBeforeAnyoneSetsIt(t *testing.T) {
	pty := newPTY(t, feed(echo), PTYConfig{Unpaced: true})
	const all = "\x00\x03\x04\n\r\x11\x13\x1a\x1c\x7f\xff"
	if got := ask(t, dial(t, pty.Path()), all); got != all {
		t.Errorf("sent %q, got %q", all, got)
	}
}

func TestPTYOutlivesItsClients(t *testing.T) {
	pty := newPTY(t, feed(echo), PTYConfig{Unpaced: true})
	for range 3 {
		f := dial(t, pty.Path())
		ask(t, f, "hello")
		f.Close()
	}
}

func TestUnpluggedPTYComesBackUnderItsLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "by-id", "motor")
	pty := newPTY(t, feed(echo), PTYConfig{Link: link, Unpaced: true})
	f := dial(t, link)
	ask(t, f, "hello")
	if err := pty.Unplug(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("x")); !errors.Is(err, unix.EIO) {
		t.Errorf("Write on an unplugged terminal: %v, want EIO", err)
	}
	if _, err := os.Lstat(link); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link of an unplugged port: %v, want none", err)
	}
	if err := pty.Replug(); err != nil {
		t.Fatal(err)
	}
	ask(t, dial(t, link), "again")
}

func TestLinkReplacesAStaleLinkAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	stale, file := filepath.Join(dir, "stale"), filepath.Join(dir, "file")
	if err := os.Symlink("/dev/pts/4711", stale); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	newPTY(t, feed(echo), PTYConfig{Link: stale})
	if _, err := NewPTY(NewBench(nil), feed(echo), PTYConfig{Link: file}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a link over a file: %v, want os.ErrExist", err)
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Errorf("the file holds %q", b)
	}
}

func TestPTYPacesAtTheClientsBitRate(t *testing.T) {
	pty := newPTY(t, feed(echo), PTYConfig{Turnaround: 2 * time.Millisecond})
	f := dial(t, pty.Path())
	setBaud(t, f, 19200)
	text := string(make([]byte, 50))
	start := time.Now()
	ask(t, f, text)
	least := 100*10*time.Second/19200 + 2*time.Millisecond // 54 ms: nothing can come sooner
	if took := time.Since(start); took < least {
		t.Errorf("50 bytes there and back at 19200 bit/s took %v, want at least %v", took, least)
	}
}

func setBaud(t *testing.T, f *os.File, baud uint32) {
	t.Helper()
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := conn.Control(func(fd uintptr) {
		s, err := unix.IoctlGetTermios(int(fd), unix.TCGETS2)
		if err != nil {
			failed = err
			return
		}
		s.Cflag = s.Cflag&^unix.CBAUD | unix.BOTHER
		s.Ispeed, s.Ospeed = baud, baud
		failed = unix.IoctlSetTermios(int(fd), unix.TCSETS2, s)
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}

// The schedule itself, without a kernel: what a wire of 1 ms a byte would do.
func TestScheduleIsAbsolute(t *testing.T) {
	ctx := t.Context()
	w := pace{perByte: 100 * time.Microsecond}
	start := time.Now()
	w.request(ctx, 5)
	var sent []int
	w.answer(ctx, time.Millisecond, make([]byte, 7), func(b []byte) { sent = append(sent, len(b)) })
	due := w.free.Sub(start) // request 0.5 ms, wait 1 ms, answer 0.7 ms, whatever the lateness was
	if due < 2200*time.Microsecond || due > 2200*time.Microsecond+time.Since(start) || len(sent) != 4 {
		t.Errorf("the wire is free after %v with chunks %v, want 2.2 ms and 4 chunks of 250 µs or less", due, sent)
	}
	free := w.free
	w.request(ctx, 1)
	if w.free.Before(free.Add(100 * time.Microsecond)) {
		t.Error("the next request begins before the wire is free")
	}
}
