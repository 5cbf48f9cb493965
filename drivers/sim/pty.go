package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// PTYConfig describes a simulated serial port that other software can open.
type PTYConfig struct {
	// Link is a symbolic link to the port that keeps its name across unplugging; "" is none. One that is
	// there already is replaced, anything else is not.
	Link string

	Baud       int           // bit/s; 0 is whatever the client sets
	Turnaround time.Duration // between the end of a request on the wire and the beginning of its answer
	Unpaced    bool          // bytes take no time

	Faults *Injector // nil is a sound wire
}

// PTY is a serial port of the operating system with a peer behind it. Pseudo terminals carry 8 bits without
// parity, whatever the client asks for. Linux only.
type PTY struct {
	bench  *Bench
	peer   Peer
	config PTYConfig

	mu      sync.Mutex
	master  *os.File // nil while unplugged
	slave   string   // /dev/pts/N
	plugged chan struct{}
	closed  bool
}

// NewPTY makes a port, ready to be opened. Bytes are answered while Run runs.
func NewPTY(b *Bench, p Peer, c PTYConfig) (*PTY, error) {
	if c.Faults != nil {
		p = c.Faults.Peer(p)
	}
	t := &PTY{bench: b, peer: p, config: c, plugged: make(chan struct{})}
	return t, t.Replug()
}

// Path is where the port can be opened: its link, or else the terminal itself.
func (p *PTY) Path() string {
	if p.config.Link != "" {
		return p.config.Link
	}
	return p.Terminal()
}

// Terminal is the device node behind the port, as /dev/pts/3; another one after each Replug. It is "" while
// the port is unplugged.
func (p *PTY) Terminal() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slave
}

// Unplug takes the port away, as pulling a USB adapter does: its link vanishes, and whoever has it open gets
// an error. The peer lives on.
func (p *PTY) Unplug() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.master == nil {
		return nil
	}
	err := errors.Join(p.unlink(), p.master.Close())
	p.master, p.slave = nil, ""
	return err
}

// Replug brings an unplugged port back, as a new terminal under the same link.
func (p *PTY) Replug() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fs.ErrClosed
	}
	if p.master != nil {
		return nil
	}
	master, slave, err := openMaster()
	if err != nil {
		return fmt.Errorf("making a pseudo terminal: %w", err)
	}
	if p.config.Link != "" {
		// The port is for whoever finds its link, as the simulated I²C node is.
		if err := os.Chmod(slave, 0o666); err != nil {
			return errors.Join(err, master.Close())
		}
		if err := relink(slave, p.config.Link); err != nil {
			return errors.Join(err, master.Close())
		}
	}
	p.master, p.slave = master, slave
	close(p.plugged)
	p.plugged = make(chan struct{})
	return nil
}

// Close unplugs the port for good.
func (p *PTY) Close() error {
	err := p.Unplug()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return err
}

// unlink removes the link if it still leads to this terminal.
func (p *PTY) unlink() error {
	if p.config.Link == "" {
		return nil
	}
	if to, _ := os.Readlink(p.config.Link); to == p.slave {
		return os.Remove(p.config.Link)
	}
	return nil
}

// relink makes a symbolic link, in one step, so that nobody ever finds none or half of one.
func relink(to, link string) error {
	if info, err := os.Lstat(link); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("%s is there and is no symbolic link: %w", link, fs.ErrExist)
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	fresh := fmt.Sprintf("%s.%d", link, os.Getpid())
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(to, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, link)
}

// Run answers what clients send until ctx ends, then closes the port. Nobody having the port open, and the
// port being unplugged, are no errors.
func (p *PTY) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, p.Close()) }()
	for {
		p.mu.Lock()
		master, plugged := p.master, p.plugged
		p.mu.Unlock()
		if master == nil {
			select {
			case <-ctx.Done():
				return nil
			case <-plugged:
			}
			continue
		}
		if err := p.serve(ctx, master); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// absent is how often a port that nobody has open, or that is stuck, is looked at again.
const absent = 2 * time.Millisecond

// serve pumps one terminal until it is unplugged or ctx ends.
func (p *PTY) serve(ctx context.Context, master *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = master.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var line pace
	var answer []byte
	in := make([]byte, 4096)
	for ctx.Err() == nil {
		if p.config.Faults != nil && p.config.Faults.stuck() {
			nap(ctx, absent) // and the kernel's buffer fills
			continue
		}
		n, err := master.Read(in)
		switch {
		case errors.Is(err, os.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, syscall.EIO): // nobody has the terminal open
			nap(ctx, absent)
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", p.Path(), err)
		}
		line.perByte = p.perByte(master)
		line.request(ctx, n)
		p.bench.Do(func() { answer = p.peer.Feed(answer[:0], in[:n]) })
		if len(answer) == 0 {
			continue
		}
		wait := p.config.Turnaround
		if p.config.Faults != nil {
			wait += p.config.Faults.delay()
		}
		line.answer(ctx, wait, answer, func(chunk []byte) { writeNow(master, chunk) })
	}
	return nil
}

// perByte is the time of one byte on the wire: a start bit, eight bits, a stop bit.
func (p *PTY) perByte(master *os.File) time.Duration {
	if p.config.Unpaced {
		return 0
	}
	baud := p.config.Baud
	if baud == 0 {
		baud = bitRate(master)
	}
	if baud <= 0 {
		return 0
	}
	return 10 * time.Second / time.Duration(baud)
}

// pace is the schedule of a wire that carries one byte at a time. It is absolute: waking up late delays a
// byte, never the ones after it. A client that answers at once to bytes that it was given late is taken to
// have answered at their due time, so that the lateness of this machine's timers does not add to the wire's.
type pace struct {
	perByte time.Duration
	free    time.Time     // when the wire is next free
	late    time.Duration // by how much the last byte was handed on after its time
}

// grain is how much wire time is handed on at once: waking up for each byte costs more than it shows.
const grain = 250 * time.Microsecond

// request waits until n bytes that a client has written have crossed the wire.
func (w *pace) request(ctx context.Context, n int) {
	start := time.Now().Add(-w.late)
	if w.free.After(start) {
		start = w.free
	}
	w.free = start.Add(time.Duration(n) * w.perByte)
	w.sleep(ctx)
}

// answer hands an answer on as it crosses the wire.
func (w *pace) answer(ctx context.Context, wait time.Duration, b []byte, send func([]byte)) {
	w.free = w.free.Add(wait)
	size := len(b)
	if w.perByte > 0 {
		size = max(1, int(grain/w.perByte))
	}
	for len(b) > 0 && ctx.Err() == nil {
		chunk := b[:min(size, len(b))]
		b = b[len(chunk):]
		w.free = w.free.Add(time.Duration(len(chunk)) * w.perByte)
		w.sleep(ctx)
		send(chunk)
	}
}

// sleep waits until the wire is free, and notes how late it is by then.
func (w *pace) sleep(ctx context.Context) {
	nap(ctx, time.Until(w.free))
	w.late = min(max(0, time.Since(w.free)), time.Millisecond)
}
