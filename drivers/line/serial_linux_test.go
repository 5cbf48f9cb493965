package line

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hilgate/drivers/sim"
	"hilgate/model/link"
)

// peer answers with what f makes of a chunk.
type peer func(dst, in []byte) []byte

func (f peer) Feed(dst, in []byte) []byte { return f(dst, in) }

func echo(dst, in []byte) []byte { return append(dst, in...) }
func mute(dst, _ []byte) []byte  { return dst }

// terminal serves a peer on a PTY whose link is in a directory of the test's own.
func terminal(t testing.TB, p sim.Peer, c sim.PTYConfig) *sim.PTY {
	t.Helper()
	if c.Link == "" {
		c.Link = filepath.Join(t.TempDir(), "by-id", "usb-Test_Motor-if00")
	}
	pty, err := sim.NewPTY(sim.NewBench(nil), p, c)
	need(t, err == nil, "pseudo terminals")
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- pty.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return pty
}

func openPort(t testing.TB, path string, o Options) Port {
	t.Helper()
	p, err := OpenSerial(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func exchange(t testing.TB, p Port, request []byte, want int) []byte {
	t.Helper()
	if _, err := p.Write(request); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, want)
	if n, err := io.ReadFull(p, answer); err != nil {
		t.Fatalf("after %d of %d bytes: %v", n, want, err)
	}
	return answer
}

func TestEveryByteValuePassesASerialPort(t *testing.T) {
	pty := terminal(t, peer(echo), sim.PTYConfig{Unpaced: true})
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, path := range []string{pty.Path(), "pty:" + pty.Path(), pty.Terminal()} {
		p := openPort(t, path, Options{Timeout: time.Second})
		if got := exchange(t, p, all, len(all)); !bytes.Equal(got, all) {
			t.Errorf("%s: sent all bytes, got % x", path, got)
		}
		p.Close()
	}
}

func TestSilenceIsATimeout(t *testing.T) {
	pty := terminal(t, peer(mute), sim.PTYConfig{})
	p := openPort(t, pty.Path(), Options{Timeout: 20 * time.Millisecond})
	if _, err := p.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n, err := p.Read(make([]byte, 8))
		if n != 0 || !errors.Is(err, link.Timeout) || !errors.Is(err, os.ErrDeadlineExceeded) || link.Lost(err) {
			t.Errorf("Read: %d, %v; want 0, link.Timeout and os.ErrDeadlineExceeded", n, err)
		}
	}
	if n := p.Counters().Counts().Failures[link.Timeout]; n != 1 {
		t.Errorf("one transaction counted %d timeouts, want 1", n)
	}
	if err := p.SetReadTimeout(time.Millisecond); err != nil {
		t.Error(err)
	}
}

func TestTransactionsAndBytesAreCounted(t *testing.T) {
	pty := terminal(t, peer(echo), sim.PTYConfig{Unpaced: true})
	var took []float64
	counters := &link.Counters{Took: func(s float64) { took = append(took, s) }}
	p := openPort(t, pty.Path(), Options{Counters: counters, Timeout: time.Second})
	exchange(t, p, []byte{1, 2, 3}, 3)
	exchange(t, p, []byte{4, 5}, 2)
	p.Close()
	c := counters.Counts()
	if c.Opens != 1 || c.Transactions != 2 || c.WrittenBytes != 5 || c.ReadBytes != 5 || len(took) != 2 || slices.Min(took) <= 0 {
		t.Errorf("counted %+v and durations %v; want 1 opening, 2 transactions, 5 bytes each way, 2 durations", c, took)
	}
}

func TestUnpluggedPortIsClosedAndOpensAgainAfterReplug(t *testing.T) {
	pty := terminal(t, peer(echo), sim.PTYConfig{Unpaced: true})
	p := openPort(t, pty.Path(), Options{Timeout: 10 * time.Second})
	exchange(t, p, []byte{1}, 1)
	read := make(chan error)
	go func() {
		_, err := p.Read(make([]byte, 1))
		read <- err
	}()
	if err := pty.Unplug(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, link.Closed) || !link.Lost(err) {
		t.Errorf("Read on an unplugged port: %v, want link.Closed", err)
	}
	if _, err := p.Write([]byte{1}); !errors.Is(err, link.Closed) {
		t.Errorf("Write on an unplugged port: %v, want link.Closed", err)
	}
	if _, err := OpenSerial(pty.Path(), Options{}); !errors.Is(err, link.Closed) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opening an unplugged port: %v, want link.Closed and os.ErrNotExist", err)
	}
	if err := pty.Replug(); err != nil { // the old port is still open here, so the number is another one
		t.Fatal(err)
	}
	again := openPort(t, pty.Path(), Options{Timeout: time.Second})
	exchange(t, again, []byte{1}, 1)
	p.Close()
	exchange(t, again, []byte{2}, 1)
}

func TestPortHasOneOwner(t *testing.T) {
	pty := terminal(t, peer(echo), sim.PTYConfig{})
	p := openPort(t, pty.Path(), Options{})
	for _, path := range []string{pty.Path(), pty.Terminal()} {
		if _, err := OpenSerial(path, Options{}); err == nil || !strings.HasSuffix(err.Error(), " is in use by another program") || !errors.Is(err, link.IO) {
			t.Errorf("opening %s a second time: %v, want that it is in use, of kind %v", path, err, link.IO)
		}
	}
	if out, err := second(t, pty.Path()); err == nil || !strings.Contains(out, "in use") {
		t.Errorf("another process opening it: %v, want that it is in use\n%s", err, out)
	}
	p.Close()
	if out, err := second(t, pty.Path()); err != nil {
		t.Errorf("another process opening it after Close: %v\n%s", err, out)
	}
	openPort(t, pty.Path(), Options{}) // the other process is gone, and its lock with it
}

// second opens a port in a process of its own, which ends without closing it.
func second(t *testing.T, path string) (string, error) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run", "^TestAnotherProcess$")
	c.Env = append(os.Environ(), "HIL_TEST_PORT="+path)
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestAnotherProcess is what second runs.
func TestAnotherProcess(t *testing.T) {
	path := os.Getenv("HIL_TEST_PORT")
	if path == "" {
		t.Skip("is run by TestPortHasOneOwner")
	}
	if _, err := OpenSerial(path, Options{}); err != nil {
		t.Fatal(err)
	}
}

func TestUnansweredBytesNeverFillTheKernelsBuffer(t *testing.T) {
	faults := sim.NewInjector(sim.Faults{Stuck: true}) // takes no bytes
	pty := terminal(t, peer(echo), sim.PTYConfig{Faults: faults, Unpaced: true})
	p := openPort(t, pty.Path(), Options{Timeout: time.Second})
	frame := make([]byte, 9)
	refused, wrote := 0, 0
	for range 20000 { // 180 kB: a write that blocked would never come back
		_, err := p.Write(frame)
		switch {
		case err == nil:
			if wrote += len(frame); wrote > Unanswered {
				t.Fatalf("%d bytes went out unanswered, want at most %d", wrote, Unanswered)
			}
		case errors.Is(err, link.Stuck):
			refused++
			wrote = 0
		default:
			t.Fatal(err)
		}
	}
	if refused == 0 || p.Counters().Counts().Failures[link.Stuck] != uint64(refused) {
		t.Errorf("%d writes refused, %d counted", refused, p.Counters().Counts().Failures[link.Stuck])
	}
	faults.Set(sim.Faults{}) // what is left in the buffer is echoed first
	if _, err := p.Write([]byte{0xaa}); err != nil && !errors.Is(err, link.Stuck) {
		t.Fatal(err)
	}
	if err := readUntil(p, 0xaa); err != nil {
		if _, err := p.Write([]byte{0xaa}); err != nil {
			t.Fatal(err)
		}
		if err := readUntil(p, 0xaa); err != nil {
			t.Errorf("after the peer came back: %v", err)
		}
	}
}

func readUntil(p Port, want byte) error {
	b := make([]byte, 64)
	for {
		n, err := p.Read(b)
		if err != nil {
			return err
		}
		if bytes.IndexByte(b[:n], want) >= 0 {
			return nil
		}
	}
}

func TestOpeningDropsWhatLayInThePort(t *testing.T) {
	pty := terminal(t, peer(echo), sim.PTYConfig{Unpaced: true})
	fd, err := unix.Open(pty.Terminal(), unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	p := openPort(t, pty.Path(), Options{})
	if _, err := p.Write([]byte("stale")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the answer to lie in the port", func() bool {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err == nil && n == len("stale")
	})
	p.Close()
	p = openPort(t, pty.Path(), Options{Timeout: time.Second})
	if got := exchange(t, p, []byte{0x7f}, 1); got[0] != 0x7f {
		t.Errorf("first byte after opening is 0x%02x, want 0x7f", got[0])
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for ", what)
		}
	}
}

func TestUnknownPortIsRefusedWithWhatThereIs(t *testing.T) {
	_, err := OpenSerial("/dev/ttyNone", Options{})
	if !errors.Is(err, link.Closed) || !strings.Contains(err.Error(), "/dev/ttyNone") || !strings.Contains(err.Error(), "found") {
		t.Errorf("%v; want link.Closed, the path, and what is found", err)
	}
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSerial(plain, Options{}); err == nil || !strings.Contains(err.Error(), "not a serial port") {
		t.Errorf("a plain file: %v, want that it is not a serial port", err)
	}
}

func TestMissingPermissionIsSaidPlainly(t *testing.T) {
	err := refused("/dev/ttyUSB0", "serial port", "dialout", os.ErrPermission, nil)
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "group dialout") {
		t.Errorf("%v; want os.ErrPermission and the group", err)
	}
}

func TestSerialPortsAreListedByTheirLastingNames(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"dev/serial/by-id", "sys/class/tty/ttyUSB0/device", "sys/class/tty/ttyS0/device",
		"sys/class/tty/ttyS1/device", "sys/class/tty/tty0"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"dev/ttyUSB0": "", "sys/class/tty/ttyS0/type": "4\n", "sys/class/tty/ttyS1/type": "0\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	byID := filepath.Join(root, "dev/serial/by-id/usb-Maker_Thing-if00")
	if err := os.Symlink("../../ttyUSB0", byID); err != nil {
		t.Fatal(err)
	}
	want := []string{byID, filepath.Join(root, "dev/ttyS0")}
	if got := serialPorts(root); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReadAndWriteOnAPortAllocateNothing(t *testing.T) {
	pty := terminal(t, peer(echo), sim.PTYConfig{Unpaced: true})
	p := openPort(t, pty.Path(), Options{Timeout: time.Second})
	out, in := make([]byte, 9), make([]byte, 9)
	memory := openPort(t, "sim:", Options{Wire: sim.NewLine(sim.NewBench(nil), peer(echo))})
	for name, p := range map[string]Port{"memory": memory, "PTY": p} {
		n := testing.AllocsPerRun(200, func() {
			if _, err := p.Write(out); err != nil {
				t.Fatal(err)
			}
			for got := 0; got < len(in); {
				n, err := p.Read(in[got:])
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
		})
		if n != 0 {
			t.Errorf("%s: an exchange allocates %v times, want 0", name, n)
		}
	}
}

func TestMemoryIsOpenedLikeAPort(t *testing.T) {
	p := openPort(t, "sim:", Options{Wire: sim.NewLine(sim.NewBench(nil), peer(echo))})
	if got := exchange(t, p, []byte{1, 2}, 2); !bytes.Equal(got, []byte{1, 2}) {
		t.Errorf("got % x", got)
	}
	if _, err := p.Read(make([]byte, 1)); !errors.Is(err, link.Timeout) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("empty line: %v, want a timeout", err)
	}
	bus := sim.NewBus(sim.NewBench(nil), "memory")
	bus.Attach(0x0b, words{})
	b := openBus(t, "sim:", Options{Bus: bus})
	if err := b.Tx(0x0b, []byte{9}, make([]byte, 2)); err != nil {
		t.Error(err)
	}
	if err := b.Tx(0x0c, []byte{9}, make([]byte, 2)); !errors.Is(err, link.NACK) {
		t.Errorf("absent device: %v, want link.NACK", err)
	}
	if c := b.Counters().Counts(); c.Transactions != 2 || c.Failures[link.NACK] != 1 {
		t.Errorf("counted %+v", c)
	}
	if _, err := OpenSerial("sim:", Options{}); err == nil {
		t.Error("sim: with nothing behind it: no error")
	}
	if _, err := OpenI2C("sim:", Options{}); err == nil {
		t.Error("sim: with nothing behind it: no error")
	}
}

func BenchmarkPTYExchange(b *testing.B) {
	pty := terminal(b, peer(echo), sim.PTYConfig{Unpaced: true})
	p := openPort(b, pty.Path(), Options{Timeout: time.Second})
	out, in := make([]byte, 9), make([]byte, 9)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Write(out); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(p, in); err != nil {
			b.Fatal(err)
		}
	}
}

// The wire time of 9 bytes out and 12 back at 115200 bit/s, a RoboClaw's cycle, is 1.82 ms.
func BenchmarkPacedExchange(b *testing.B) {
	pty := terminal(b, peer(func(dst, in []byte) []byte { return append(dst, make([]byte, 12*len(in)/9)...) }), sim.PTYConfig{})
	p := openPort(b, pty.Path(), Options{Timeout: time.Second, Baud: 115200})
	out, in := make([]byte, 9), make([]byte, 12)
	for b.Loop() {
		if _, err := p.Write(out); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(p, in); err != nil {
			b.Fatal(err)
		}
	}
}
