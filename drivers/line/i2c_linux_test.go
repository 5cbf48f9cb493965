package line

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"hilgate/drivers/sim"
	"hilgate/model/link"
)

// need skips a test whose prerequisite is missing, and fails it instead where everything must be there.
func need(t testing.TB, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if all() {
		t.Fatal("needs ", what)
	}
	t.Skip("needs ", what)
}

// all reports whether tests must run at full length, with all their prerequisites.
func all() bool { return os.Getenv("HIL_TEST_ALL") == "1" }

// words is a device whose every command reads as a word that is made from it, low byte first.
type words struct{}

func wordOf(command byte) uint16 { return uint16(command)<<8 | uint16(^command)&0xff ^ 0x5a }

func (words) Tx(w, r []byte) error {
	if len(w) != 1 {
		return link.NACK
	}
	b := binary.LittleEndian.AppendUint16(nil, wordOf(w[0]))
	for i := range r {
		r[i] = b[i%2]
	}
	return nil
}

// bench serves a bus with a words device at 0x0b at a free /dev/i2c-N.
func bench(t testing.TB, o sim.NodeOptions) (path string, faults *sim.Injector) {
	t.Helper()
	_, err := os.Stat("/dev/fuse")
	need(t, err == nil && os.Geteuid() == 0, "root and /dev/fuse")
	faults = sim.NewInjector(sim.Faults{})
	bus := sim.NewBus(sim.NewBench(nil), "test")
	bus.Attach(0x0b, words{})
	var n *sim.Node
	for number := 80; number < 100; number++ {
		path = fmt.Sprintf("/dev/i2c-%d", number)
		if n, err = sim.NewNode(path, faults.Bus(bus), o); !errors.Is(err, os.ErrExist) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- n.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return path, faults
}

func openBus(t testing.TB, path string, o Options) I2C {
	t.Helper()
	b, err := OpenI2C(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestMessagesHaveTheKernelsLayout(t *testing.T) {
	pointer := unsafe.Sizeof(uintptr(0))
	if got := unsafe.Sizeof(message{}); got != 8+pointer {
		t.Errorf("struct i2c_msg has %d bytes, want %d", got, 8+pointer)
	}
	if got := unsafe.Offsetof(message{}.buf); got != 8 {
		t.Errorf("its buf is at %d, want 8", got)
	}
	if got := unsafe.Sizeof(request{}); got != 2*pointer {
		t.Errorf("struct i2c_rdwr_ioctl_data has %d bytes, want %d", got, 2*pointer)
	}
	if got := unsafe.Offsetof(request{}.nmsgs); got != pointer {
		t.Errorf("its nmsgs is at %d, want %d", got, pointer)
	}
	if got, want := unsafe.Sizeof(serialStruct{}), map[uintptr]uintptr{4: 60, 8: 72}[pointer]; got != want {
		t.Errorf("struct serial_struct has %d bytes, want %d", got, want)
	}
}

func TestTransferReachesTheDevice(t *testing.T) {
	path, _ := bench(t, sim.NodeOptions{})
	counters := new(link.Counters)
	b := openBus(t, path, Options{Counters: counters})
	r := make([]byte, 2)
	if err := b.Tx(0x0b, []byte{0x09}, r); err != nil {
		t.Fatal(err)
	}
	if got, want := binary.LittleEndian.Uint16(r), wordOf(0x09); got != want {
		t.Errorf("word 0x%04x, want 0x%04x", got, want)
	}
	if err := b.Tx(0x0b, []byte{0x09}, nil); err != nil {
		t.Errorf("write alone: %v", err)
	}
	if err := b.Tx(0x0b, nil, nil); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
	if err := b.Tx(0x80, []byte{1}, nil); err == nil {
		t.Error("an 8-bit address: no error")
	}
	if err := b.Tx(0x0b, make([]byte, 8193), nil); err == nil {
		t.Error("8193 bytes: no error")
	}
	c := counters.Counts()
	if c.Opens != 1 || c.Transactions != 2 || c.WrittenBytes != 2 || c.ReadBytes != 2 {
		t.Errorf("counted %d openings, %d transactions, %d bytes out, %d in; want 1, 2, 2, 2",
			c.Opens, c.Transactions, c.WrittenBytes, c.ReadBytes)
	}
}

func TestFailedTransferIsAKindAndKeepsItsErrno(t *testing.T) {
	for _, c := range []struct {
		fault sim.RuleFault
		from  sim.Adapter
		errno syscall.Errno
		kind  link.Kind
	}{
		{sim.RuleNACK, sim.Broadcom, syscall.EREMOTEIO, link.NACK},
		{sim.RuleNACK, sim.BitBang, syscall.ENXIO, link.NACK},
		{sim.RuleTimeout, sim.Broadcom, syscall.ETIMEDOUT, link.Timeout},
		{sim.RuleArbitration, sim.Broadcom, syscall.EAGAIN, link.Arbitration},
		{sim.RuleIO, sim.Broadcom, syscall.EIO, link.IO},
		{sim.RuleUnsupported, sim.Broadcom, syscall.EOPNOTSUPP, link.IO},
		{sim.RuleGone, sim.Broadcom, syscall.ENODEV, link.Closed},
	} {
		t.Run(string(c.fault)+" on "+string(c.from), func(t *testing.T) {
			path, faults := bench(t, sim.NodeOptions{Adapter: c.from})
			b := openBus(t, path, Options{})
			faults.Set(sim.Faults{Rules: []sim.Rule{{Fault: c.fault}}})
			err := b.Tx(0x0b, []byte{0x09}, make([]byte, 2))
			if !errors.Is(err, c.kind) || !errors.Is(err, c.errno) || link.KindOf(err) != c.kind {
				t.Errorf("%v is kind %v; want %v and %v", err, link.KindOf(err), c.kind, c.errno)
			}
			if n := b.Counters().Counts().Failures[c.kind]; n != 1 {
				t.Errorf("counted %d times, want once", n)
			}
			faults.Set(sim.Faults{})
			if err := b.Tx(0x0b, []byte{0x09}, make([]byte, 2)); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestEveryErrnoOfATransferHasItsKind(t *testing.T) {
	for errno, want := range map[syscall.Errno]link.Kind{
		syscall.EREMOTEIO: link.NACK, syscall.ENXIO: link.NACK, syscall.ETIMEDOUT: link.Timeout,
		syscall.EAGAIN: link.Arbitration, syscall.EBUSY: link.Stuck, syscall.EBADMSG: link.PEC,
		syscall.EPROTO: link.Malformed, syscall.ENODEV: link.Closed, syscall.EBADF: link.Closed,
		syscall.ENOTCONN: link.Closed, syscall.ECONNABORTED: link.Closed, syscall.ESHUTDOWN: link.Closed,
		syscall.EIO: link.IO, syscall.EOPNOTSUPP: link.IO, syscall.EINVAL: link.IO, syscall.ENOMEM: link.IO,
	} {
		if got := transferKind(errno); got != want {
			t.Errorf("%v is %v, want %v", errno, got, want)
		}
	}
}

func TestClosedBusSaysSo(t *testing.T) {
	path, _ := bench(t, sim.NodeOptions{})
	b := openBus(t, path, Options{})
	b.Close()
	if err := b.Tx(0x0b, []byte{1}, nil); !errors.Is(err, link.Closed) {
		t.Errorf("Tx after Close: %v, want link.Closed", err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestNodeThatVanishesIsClosedAndOpensAgain(t *testing.T) {
	_, err := os.Stat("/dev/fuse")
	need(t, err == nil && os.Geteuid() == 0, "root and /dev/fuse")
	path := filepath.Join(t.TempDir(), "i2c")
	bus := sim.NewBus(sim.NewBench(nil), "test")
	bus.Attach(0x0b, words{})
	serve := func() (stop func()) {
		n, err := sim.NewNode(path, bus, sim.NodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- n.Serve(context.Background()) }()
		return func() {
			n.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	}
	stop := serve()
	b := openBus(t, path, Options{})
	stop()
	if err := b.Tx(0x0b, []byte{1}, make([]byte, 2)); !errors.Is(err, link.Closed) || !link.Lost(err) {
		t.Errorf("after the node vanished: %v, want link.Closed", err)
	}
	if _, err := OpenI2C(path, Options{}); !errors.Is(err, link.Closed) {
		t.Errorf("opening it then: %v, want link.Closed", err)
	}
	defer serve()()
	if err := openBus(t, path, Options{}).Tx(0x0b, []byte{1}, make([]byte, 2)); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

func TestUnknownBusIsRefusedWithWhatThereIs(t *testing.T) {
	path, _ := bench(t, sim.NodeOptions{})
	for _, name := range []string{"/dev/i2c-4711", "I2C4711", "4711"} {
		_, err := OpenI2C(name, Options{})
		if !errors.Is(err, link.Closed) || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), "found") {
			t.Errorf("%s: %v; want link.Closed, the name, and what is found", name, err)
		}
	}
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenI2C(plain, Options{}); err == nil || !strings.Contains(err.Error(), "no I²C bus") {
		t.Errorf("a plain file: %v, want that it is no I²C bus", err)
	}
	_ = path
}

// The attack on transfers that keep addresses as integers: fresh goroutines, whose stacks grow, and so
// move, at a random depth, each read one known word into a buffer of their own.
func TestNoTransferIsLostWhenTheStackMoves(t *testing.T) {
	length := time.Second
	if all() {
		length = 8 * time.Second
	}
	path, _ := bench(t, sim.NodeOptions{})
	b := openBus(t, path, Options{})
	var transfers, wrong, failed atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var attackers sync.WaitGroup
	turns := make(chan struct{}, 8)
	for end := time.Now().Add(length); time.Now().Before(end); {
		turns <- struct{}{}
		attackers.Go(func() {
			defer func() { <-turns }()
			depth, command := rand.IntN(60), byte(rand.Uint32())
			start := time.Now()
			got, err := deep(depth, b, command)
			if d := time.Since(start); transfers.Add(1)%16 == 0 {
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
			switch {
			case err != nil:
				failed.Add(1)
			case got != wordOf(command):
				wrong.Add(1)
			}
		})
	}
	attackers.Wait()
	slices.Sort(took)
	t.Logf("%d transfers in %v (%.0f/s), %d wrong, %d failed; 8 at a time, median %v",
		transfers.Load(), length, float64(transfers.Load())/length.Seconds(), wrong.Load(), failed.Load(), took[len(took)/2])
	if wrong.Load() != 0 || failed.Load() != 0 {
		t.Errorf("%d wrong words, %d errors, want none", wrong.Load(), failed.Load())
	}
}

// deep transfers below so many frames of about 100 bytes.
//
//go:noinline
func deep(depth int, b I2C, command byte) (uint16, error) {
	var frame [96]byte
	frame[depth%len(frame)] = byte(depth)
	if depth > 0 {
		word, err := deep(depth-1, b, command)
		return word + uint16(frame[(depth+1)%len(frame)]), err
	}
	w, r := [1]byte{command}, [2]byte{}
	err := b.Tx(0x0b, w[:], r[:])
	return binary.LittleEndian.Uint16(r[:]), err
}

// A 32-bit process on the same machine uses the kernel's other layouts.
func TestTransfersOfA32BitProcess(t *testing.T) {
	if !all() {
		t.Skip("builds a program for another architecture: set HIL_TEST_ALL=1")
	}
	path, _ := bench(t, sim.NodeOptions{})
	binary := filepath.Join(t.TempDir(), "line.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Env = append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(binary, "-test.run", "^TestWordsOfAServedNode$", "-test.v")
	run.Env = append(os.Environ(), "HIL_TEST_NODE="+path)
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestWordsOfAServedNode") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestWordsOfAServedNode is the part of the test above that runs in the 32-bit process.
func TestWordsOfAServedNode(t *testing.T) {
	path := os.Getenv("HIL_TEST_NODE")
	if path == "" {
		t.Skip("is run by TestTransfersOfA32BitProcess")
	}
	b := openBus(t, path, Options{})
	for command := range 256 {
		if got, err := deep(command%60, b, byte(command)); err != nil || got != wordOf(byte(command)) {
			t.Fatalf("command 0x%02x: 0x%04x, %v; want 0x%04x", command, got, err, wordOf(byte(command)))
		}
	}
}

func BenchmarkTransfer(b *testing.B) {
	path, _ := bench(b, sim.NodeOptions{})
	bus := openBus(b, path, Options{})
	w, r := []byte{0x09}, make([]byte, 2)
	b.ReportAllocs()
	for b.Loop() {
		if err := bus.Tx(0x0b, w, r); err != nil {
			b.Fatal(err)
		}
	}
}
