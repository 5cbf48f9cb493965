package sim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hilgate/model/link"
)

// need skips a test whose prerequisite is missing, and fails it instead where everything must be there.
func need(t *testing.T, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("HIL_TEST_ALL") == "1" {
		t.Fatal("needs", what)
	}
	t.Skip("needs", what)
}

// registers is a device of 256 bytes: a command selects one, what follows is written there, a read goes on
// from there. The byte after the last register that was written is 0xff.
type registers struct {
	mu      sync.Mutex
	memory  [256]byte
	pointer byte
	log     []string
}

// transactions is what came, one line each.
func (d *registers) transactions() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.log, ", ")
}

func (d *registers) Tx(w, r []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, fmt.Sprintf("w% x r%d", w, len(r)))
	if len(w) > 0 {
		d.pointer = w[0]
		for i, b := range w[1:] {
			d.memory[d.pointer+byte(i)] = b
		}
	}
	for i := range r {
		r[i] = d.memory[d.pointer+byte(i)]
	}
	return nil
}

// serveNode puts a bus at a free /dev/i2c-N for the time of the test.
func serveNode(t *testing.T, bus interface {
	Tx(uint16, []byte, []byte) error
}, o NodeOptions) (path string, number int) {
	t.Helper()
	_, err := os.Stat("/dev/fuse")
	need(t, err == nil && os.Geteuid() == 0, "root and /dev/fuse")
	b := bus.(*FaultyBus)
	var n *Node
	for number = 60; number < 80; number++ {
		path = fmt.Sprintf("/dev/i2c-%d", number)
		if n, err = NewNode(path, b, o); !errors.Is(err, os.ErrExist) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- n.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after Serve %s is still there: %v", path, err)
		}
	})
	return path, number
}

func newRegisters() (*FaultyBus, *registers, *Injector) {
	d := new(registers)
	for i := range d.memory {
		d.memory[i] = byte(i) ^ 0xa5
	}
	bus := NewBus(NewBench(nil), "test")
	bus.Attach(0x0b, d)
	i := NewInjector(Faults{})
	return i.Bus(bus), d, i
}

func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	need(t, err == nil, name+", of i2c-tools")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestI2CToolsWorkOnTheNode(t *testing.T) {
	bus, d, _ := newRegisters()
	d.memory[0x40] = 5 // a block of five
	copy(d.memory[0x41:], "hello")
	_, number := serveNode(t, bus, NodeOptions{Adapter: BitBang})
	n := fmt.Sprint(number)
	for _, c := range []struct{ name, command, want string }{
		{"byte", "i2cget -y " + n + " 0x0b 0x09 b", "0xac"},
		{"word", "i2cget -y " + n + " 0x0b 0x09 w", "0xafac"},
		{"I²C block", "i2cget -y " + n + " 0x0b 0x10 i 4", "0xb5 0xb4 0xb7 0xb6"},
		{"SMBus block", "i2cget -y " + n + " 0x0b 0x40 s", "0x68 0x65 0x6c 0x6c 0x6f"},
		{"transfer", "i2ctransfer -y " + n + " w1@0x0b 0x09 r3", "0xac 0xaf 0xae"},
		{"write", "i2cset -y " + n + " 0x0b 0x80 0x1234 w", ""},
		{"written", "i2cget -y " + n + " 0x0b 0x80 w", "0x1234"},
		{"write block", "i2cset -y " + n + " 0x0b 0x90 1 2 3 s", ""},
		{"written block", "i2cget -y " + n + " 0x0b 0x90 s", "0x01 0x02 0x03"},
	} {
		words := strings.Fields(c.command)
		if out, err := run(t, words[0], words[1:]...); err != nil || out != c.want {
			t.Errorf("%s: %s: %q, %v; want %q", c.name, c.command, out, err, c.want)
		}
	}
	out, err := run(t, "i2cdump", "-y", n, "0x0b", "b")
	if err != nil || !strings.Contains(out, "00: a5 a4 a7 a6 a1 a0 a3 a2 ad ac af ae a9 a8 ab aa") {
		t.Errorf("i2cdump: %v:\n%s", err, out)
	}
	if out, err := run(t, "i2cdetect", "-y", "-r", n); err != nil || !strings.Contains(out, "-- 0b --") {
		t.Errorf("i2cdetect: %v:\n%s", err, out)
	}
	if out, err := run(t, "i2cget", "-y", n, "0x0c", "0x09", "w"); err == nil || !strings.Contains(out, "Read failed") {
		t.Errorf("i2cget of an absent device: %q, %v", out, err)
	}
}

// open opens the node as a program does.
func open(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

type cMessage struct {
	addr, flags, len uint16
	buf              unsafe.Pointer
}

type cRequest struct {
	msgs  unsafe.Pointer
	count uint32
}

// rdwr is I2C_RDWR as a C program does it: nothing moves, since what it points to is on the heap.
func rdwr(fd int, msgs ...cMessage) (int, unix.Errno) {
	r := &cRequest{count: uint32(len(msgs))}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(r)
	for i := range msgs {
		pinner.Pin(&msgs[i])
		if msgs[i].buf != nil {
			pinner.Pin(msgs[i].buf)
		}
	}
	if len(msgs) > 0 {
		r.msgs = unsafe.Pointer(&msgs[0])
	}
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), i2cRdwr, uintptr(unsafe.Pointer(r)))
	return int(n), errno
}

func msg(addr, flags uint16, b []byte) cMessage {
	m := cMessage{addr: addr, flags: flags, len: uint16(len(b))}
	if len(b) > 0 {
		m.buf = unsafe.Pointer(&b[0])
	}
	return m
}

func TestMessagesOfOneTransferBecomeTransactions(t *testing.T) {
	bus, d, _ := newRegisters()
	path, _ := serveNode(t, bus, NodeOptions{Adapter: BitBang})
	fd := open(t, path)
	in, again := make([]byte, 2), make([]byte, 1)
	n, errno := rdwr(fd,
		msg(0x0b, 0, []byte{0x20, 1, 2}),                   // a write alone
		msg(0x0b, 0, []byte{0x20}), msg(0x0b, msgRead, in), // a write and read
		msg(0x0b, msgRead, again)) // a read alone
	if n != 4 || errno != 0 {
		t.Fatalf("I2C_RDWR: %d messages, %v; want 4", n, errno)
	}
	if got, want := d.transactions(), "w20 01 02 r0, w20 r2, w r1"; got != want {
		t.Errorf("transactions %s, want %s", got, want)
	}
	if !bytes.Equal(in, []byte{1, 2}) || again[0] != 1 {
		t.Errorf("read % x and % x, want 01 02 and 01", in, again)
	}
}

func TestNodeKeepsTheKernelsLimits(t *testing.T) {
	bus, _, _ := newRegisters()
	path, _ := serveNode(t, bus, NodeOptions{})
	fd := open(t, path)
	one := []byte{0}
	var many []cMessage
	for range 43 {
		many = append(many, msg(0x0b, 0, one))
	}
	long := make([]byte, maxMessage+1)
	for _, c := range []struct {
		name string
		msgs []cMessage
		want unix.Errno
	}{
		{"no message", nil, unix.EINVAL},
		{"43 messages", many, unix.EINVAL},
		{"42 messages", many[:42], 0},
		{"8193 bytes", []cMessage{msg(0x0b, 0, long)}, unix.EINVAL},
		{"8192 bytes", []cMessage{msg(0x0b, 0, long[:maxMessage])}, 0},
		{"a ten-bit address", []cMessage{msg(0x0b, msgTen, one)}, unix.EREMOTEIO},
		{"an absent device", []cMessage{msg(0x0c, 0, one)}, unix.EREMOTEIO},
		{"a read that is not the last", []cMessage{msg(0x0b, msgRead, one), msg(0x0b, 0, one)}, unix.EOPNOTSUPP},
		{"memory that is not there", []cMessage{{addr: 0x0b, len: 1, buf: nil}}, unix.EFAULT},
	} {
		if _, errno := rdwr(fd, c.msgs...); errno != c.want {
			t.Errorf("%s: %v, want %v", c.name, errno, c.want)
		}
	}
	for _, c := range []struct {
		name         string
		request, arg int
		want         error
	}{
		{"a 7-bit address", i2cSlave, 0x7f, nil},
		{"an 8-bit address", i2cSlave, 0x80, unix.EINVAL},
		{"an 8-bit address by force", i2cSlaveForce, 0x80, unix.EINVAL},
		{"ten bits on", i2cTenbit, 1, nil},
		{"a ten-bit address", i2cSlave, 0x3ff, nil},
		{"an 11-bit address", i2cSlave, 0x400, unix.EINVAL},
		{"a timeout", i2cTimeout, 10, nil},
		{"retries", i2cRetries, 0, nil},
		{"an unknown request", 0x0799, 0, unix.ENOTTY},
	} {
		if err := unix.IoctlSetInt(fd, uint(c.request), c.arg); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestFailuresReachTheCallerAsTheAdaptersErrno(t *testing.T) {
	for _, c := range []struct {
		fault RuleFault
		bcm   unix.Errno
		gpio  unix.Errno
	}{
		{RuleNACK, unix.EREMOTEIO, unix.ENXIO},
		{RuleTimeout, unix.ETIMEDOUT, unix.ETIMEDOUT},
		{RuleIO, unix.EIO, unix.EIO},
		{RuleArbitration, unix.EAGAIN, unix.EAGAIN},
		{RuleUnsupported, unix.EOPNOTSUPP, unix.EOPNOTSUPP},
		{RuleGone, unix.ENODEV, unix.ENODEV},
	} {
		for adapter, want := range map[Adapter]unix.Errno{Broadcom: c.bcm, BitBang: c.gpio} {
			i := NewInjector(Faults{Rules: []Rule{{Fault: c.fault}}})
			a := adapterOf(i, adapter)
			if _, errno := a.transfer([]message{{addr: 0x0b, buf: []byte{1}}}); errno != want {
				t.Errorf("%s on %s: %v, want %v", c.fault, adapter, errno, want)
			}
		}
	}
}

func adapterOf(i *Injector, a Adapter) *adapter {
	bus := NewBus(NewBench(nil), "test")
	bus.Attach(0x0b, new(registers))
	return &adapter{bus: i.Bus(bus), options: NodeOptions{Adapter: a}}
}

func TestPECIsMadeAndCheckedOnSMBusRequests(t *testing.T) {
	bus := NewBus(NewBench(nil), "test")
	voltage := targetFunc(func(w, r []byte) error { // Voltage 0x09 = 14832, of the SBS specification's example
		switch {
		case bytes.Equal(w, []byte{0x09}):
			copy(r, []byte{0xf0, 0x39, 0xd0})
		case bytes.Equal(w, []byte{0x03, 0x00, 0x60, 0x89}): // BatteryMode with its PEC
		default:
			return link.NACK
		}
		return nil
	})
	bus.Attach(0x0b, voltage)
	a := &adapter{bus: bus}
	var data smbusData
	if errno := a.smbus(0x0b, false, true, true, 0x09, smbusWordData, &data); errno != 0 || le.Uint16(data[:]) != 14832 {
		t.Errorf("read word with PEC: %v, %d; want 14832", errno, le.Uint16(data[:]))
	}
	data = smbusData{0x00, 0x60}
	if errno := a.smbus(0x0b, false, true, false, 0x03, smbusWordData, &data); errno != 0 {
		t.Errorf("write word with PEC: %v", errno)
	}
	bad := NewInjector(Faults{Rules: []Rule{{Fault: RuleBadPEC}}})
	a.bus = bad.Bus(bus)
	if errno := a.smbus(0x0b, false, true, true, 0x09, smbusWordData, &data); errno != unix.EBADMSG {
		t.Errorf("read word with a bad PEC: %v, want EBADMSG", errno)
	}
}

type targetFunc func(w, r []byte) error

func (f targetFunc) Tx(w, r []byte) error { return f(w, r) }

func TestStalledBusHoldsUpNoOtherRequest(t *testing.T) {
	bus, _, i := newRegisters()
	path, _ := serveNode(t, bus, NodeOptions{})
	i.Set(Faults{Rules: []Rule{{Fault: RuleTimeout, Hang: 300 * time.Millisecond, Times: 1}}})
	fd := open(t, path)
	stalled := make(chan unix.Errno)
	go func() {
		_, errno := rdwr(fd, msg(0x0b, 0, []byte{1}))
		stalled <- errno
	}()
	for i.Counts().Ruled == 0 {
		time.Sleep(time.Millisecond)
	}
	other := open(t, path) // while it hangs
	if err := unix.IoctlSetInt(other, i2cSlave, 0x0b); err != nil {
		t.Errorf("I2C_SLAVE while a transfer hangs: %v", err)
	}
	select {
	case errno := <-stalled:
		t.Fatalf("the transfer did not hang: %v", errno)
	default:
	}
	if errno := <-stalled; errno != unix.ETIMEDOUT {
		t.Errorf("the transfer that hung: %v, want ETIMEDOUT", errno)
	}
}

func TestNodeReplacesWhatAKilledSimulatorLeft(t *testing.T) {
	_, err := os.Stat("/dev/fuse")
	need(t, err == nil && os.Geteuid() == 0, "root and /dev/fuse")
	bus, _, _ := newRegisters()
	path := t.TempDir() + "/i2c"
	first, err := NewNode(path, bus, NodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.fuse.Close() // as a kill does: the mount stays, dead
	if _, err := os.Stat(path); !errors.Is(err, unix.ENOTCONN) {
		t.Fatalf("a dead mount: %v, want ENOTCONN", err)
	}
	second, err := NewNode(path, bus, NodeOptions{})
	if err != nil {
		t.Fatalf("over a dead mount: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- second.Serve(ctx) }()
	if _, err := NewNode(path, bus, NodeOptions{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a node that is served: %v, want ErrExist", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewNode(path, bus, NodeOptions{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file with content: %v, want ErrExist", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "precious" {
		t.Errorf("the file holds %q", got)
	}
}

// A server that is killed while one of its own threads waits for it is neither gone nor alive, and whoever
// touches its node waits for ever. The next server must get past it all the same.
func TestNodeOfAServerThatWasKilledIsReplaced(t *testing.T) {
	_, err := os.Stat("/dev/fuse")
	need(t, err == nil && os.Geteuid() == 0, "root and /dev/fuse")
	path := t.TempDir() + "/i2c"
	c := exec.Command(os.Args[0], "-test.run", "^TestServeUntilKilled$")
	c.Env = append(os.Environ(), "HIL_TEST_NODE="+path)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unmount(path) })            // or nothing could remove the folder, should this fail
	line, err := bufio.NewReader(out).ReadString('\n') // it hangs now
	if err != nil {
		t.Error(line, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(c.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the process does not die")
		}
	}
	bus, _, _ := newRegisters()
	n, err := NewNode(path, bus, NodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it can end only now
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// TestServeUntilKilled is the server of the test above.
func TestServeUntilKilled(t *testing.T) {
	path := os.Getenv("HIL_TEST_NODE")
	if path == "" {
		t.Skip("is run by TestNodeOfAServerThatWasKilledIsReplaced")
	}
	bus, _, i := newRegisters()
	i.Set(Faults{Rules: []Rule{{Fault: RuleTimeout, Hang: time.Hour}}})
	n, err := NewNode(path, bus, NodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = n.Serve(t.Context()) }()
	fd := open(t, path)
	go func() {
		for i.Counts().Ruled == 0 {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("hangs")
	}()
	rdwr(fd, msg(0x0b, 0, []byte{1}))
}
