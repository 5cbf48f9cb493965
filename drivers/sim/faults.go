package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"hilgate/model/link"
)

// Faults is what goes wrong on a wire on purpose. The zero Faults is a sound wire. Numbers without a unit
// are probabilities from 0 to 1. An answer is what a device gives back for bytes that came in together, or
// in one transaction.
type Faults struct {
	Seed uint64 `yaml:"seed" json:"seed"` // of the dice: the same seed and bytes give the same faults

	Flip      float64       `yaml:"flip" json:"flip"`           // of a byte, either way: one of its bits is inverted
	Drop      float64       `yaml:"drop" json:"drop"`           // of a byte, either way: it is lost; serial only
	Noise     float64       `yaml:"noise" json:"noise"`         // of a byte, either way: a stray one comes before it; serial only
	Cut       float64       `yaml:"cut" json:"cut"`             // of an answer: its tail is lost, and reads 0xff on I²C
	Silence   float64       `yaml:"silence" json:"silence"`     // of an answer: it is lost whole, and reads 0xff on I²C
	Duplicate float64       `yaml:"duplicate" json:"duplicate"` // of an answer: it comes twice; behind a Peer only
	Late      float64       `yaml:"late" json:"late"`           // of an answer: it comes just before the next one; on I²C the previous one is repeated
	NACK      float64       `yaml:"nack" json:"nack"`           // of a transaction: it is not acknowledged; I²C only
	Delay     time.Duration `yaml:"delay" json:"delay"`         // of every answer; where there is time: PTYs, wrapped ports and I²C
	Stuck     bool          `yaml:"stuck" json:"stuck"`         // nothing passes: a PTY takes no bytes, I²C times out, else bytes vanish
	Rules     []Rule        `yaml:"rules" json:"rules"`         // chosen transactions on I²C
}

// Check tells every value that is out of bounds, by its key.
func (f Faults) Check() error {
	var faults []error
	for _, p := range []struct {
		key   string
		value float64
	}{
		{"flip", f.Flip}, {"drop", f.Drop}, {"noise", f.Noise}, {"cut", f.Cut}, {"silence", f.Silence},
		{"duplicate", f.Duplicate}, {"late", f.Late}, {"nack", f.NACK},
	} {
		if !(p.value >= 0 && p.value <= 1) { // so that NaN is refused too
			faults = append(faults, fmt.Errorf("%s: %v: a probability is from 0 to 1", p.key, p.value))
		}
	}
	if f.Delay < 0 {
		faults = append(faults, fmt.Errorf("delay: %v: want 0 or more", f.Delay))
	}
	for i, r := range f.Rules {
		if err := r.check(); err != nil {
			faults = append(faults, fmt.Errorf("rules[%d]: %w", i, err))
		}
	}
	return errors.Join(faults...)
}

// FaultCounts counts the faults that were injected, each by the name of its key in Faults.
type FaultCounts struct {
	Flips      uint64 `json:"flip"`
	Drops      uint64 `json:"drop"`
	Noise      uint64 `json:"noise"`
	Cuts       uint64 `json:"cut"`
	Silences   uint64 `json:"silence"`
	Duplicates uint64 `json:"duplicate"`
	Lates      uint64 `json:"late"`
	NACKs      uint64 `json:"nack"`
	Stuck      uint64 `json:"stuck"`
	Ruled      uint64 `json:"rules"`
}

// Injector damages what passes through the wires that it was put on. It may be set and read while they
// run, from several goroutines.
type Injector struct {
	mu     sync.Mutex
	faults Faults
	dice   *rand.Rand
	counts FaultCounts
	hits   []int // by rule: how many transactions it has met
}

// NewInjector makes an injector of these faults.
func NewInjector(f Faults) *Injector {
	i := new(Injector)
	i.Set(f)
	return i
}

// Set replaces the faults and throws the dice anew from their seed; the zero Faults ends all of them.
// The counts go on.
func (i *Injector) Set(f Faults) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults, i.hits = f, make([]int, len(f.Rules))
	i.dice = rand.New(rand.NewPCG(f.Seed, 0))
}

// Faults is what Set set last.
func (i *Injector) Faults() Faults {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.faults
}

// Counts is how many faults were injected so far.
func (i *Injector) Counts() FaultCounts {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts
}

// delay is how much later answers come.
func (i *Injector) delay() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.faults.Delay
}

// stuck reports, and counts, that nothing passes.
func (i *Injector) stuck() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.faults.Stuck {
		i.counts.Stuck++
	}
	return i.faults.Stuck
}

// hit throws the dice for one fault and counts it. The injector is locked.
func (i *Injector) hit(probability float64, count *uint64) bool {
	if probability == 0 || i.dice.Float64() >= probability {
		return false
	}
	*count++
	return true
}

// flip inverts bits of b. The injector is locked.
func (i *Injector) flip(b []byte) {
	if i.faults.Flip == 0 {
		return
	}
	for n := range b {
		if i.hit(i.faults.Flip, &i.counts.Flips) {
			b[n] ^= 1 << i.dice.IntN(8)
		}
	}
}

// stream appends to dst what arrives of src at the other end of a serial line. The injector is locked.
func (i *Injector) stream(dst, src []byte) []byte {
	for _, c := range src {
		if i.hit(i.faults.Noise, &i.counts.Noise) {
			dst = append(dst, byte(i.dice.Uint32()))
		}
		if i.hit(i.faults.Drop, &i.counts.Drops) {
			continue
		}
		if i.hit(i.faults.Flip, &i.counts.Flips) {
			c ^= 1 << i.dice.IntN(8)
		}
		dst = append(dst, c)
	}
	return dst
}

// Peer puts the injector between a serial device and its wire, be that a Line or a PTY.
func (i *Injector) Peer(p Peer) Peer { return &faultyPeer{injector: i, peer: p} }

type faultyPeer struct {
	injector *Injector
	peer     Peer
	in, out  []byte
	held     []byte // an answer that is late
}

func (p *faultyPeer) Feed(dst, in []byte) []byte {
	i := p.injector
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.faults.Stuck {
		i.counts.Stuck++
		return dst
	}
	p.in = i.stream(p.in[:0], in)
	p.out = p.peer.Feed(p.out[:0], p.in)
	if len(p.out) == 0 {
		return dst
	}
	answer := p.out
	if i.hit(i.faults.Cut, &i.counts.Cuts) {
		answer = answer[:i.dice.IntN(len(answer))]
	}
	if i.hit(i.faults.Silence, &i.counts.Silences) {
		answer = nil
	}
	dst = append(dst, p.held...)
	p.held = p.held[:0]
	if i.hit(i.faults.Late, &i.counts.Lates) {
		p.held = i.stream(p.held, answer)
		return dst
	}
	dst = i.stream(dst, answer)
	if i.hit(i.faults.Duplicate, &i.counts.Duplicates) {
		dst = i.stream(dst, answer)
	}
	return dst
}

// Port puts the injector on any serial port, a real one included. An answer is what is read between two
// writes. The port's read timeout and counters stay within reach.
func (i *Injector) Port(port io.ReadWriter) *FaultyPort {
	return &FaultyPort{injector: i, port: port, counters: link.Of(port), left: -1}
}

// FaultyPort is a serial port on which an Injector works.
type FaultyPort struct {
	injector *Injector
	port     io.ReadWriter
	counters *link.Counters
	out      []byte
	in       []byte // arrived, and not yet read
	left     int    // how many bytes of the present answer still pass; negative: all
	delayed  bool   // the present answer has waited
}

// Counters are those of the port beneath.
func (p *FaultyPort) Counters() *link.Counters { return p.counters }

// SetReadTimeout sets that of the port beneath, if it has one.
func (p *FaultyPort) SetReadTimeout(d time.Duration) error {
	if t, ok := p.port.(interface{ SetReadTimeout(time.Duration) error }); ok {
		return t.SetReadTimeout(d)
	}
	return nil
}

// Write sends b, damaged, and begins a new answer.
func (p *FaultyPort) Write(b []byte) (int, error) {
	i := p.injector
	i.mu.Lock()
	p.left, p.delayed = -1, false
	if i.hit(i.faults.Cut, &i.counts.Cuts) {
		p.left = i.dice.IntN(16)
	}
	if i.hit(i.faults.Silence, &i.counts.Silences) {
		p.left = 0
	}
	if i.faults.Stuck {
		i.counts.Stuck++
		p.left, p.out = 0, p.out[:0]
	} else {
		p.out = i.stream(p.out[:0], b)
	}
	i.mu.Unlock()
	if len(p.out) > 0 {
		if _, err := p.port.Write(p.out); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// Read reads what came, damaged. Bytes that are lost do not end a Read: the port's own timeout does.
func (p *FaultyPort) Read(b []byte) (int, error) {
	for len(p.in) == 0 {
		n, err := p.port.Read(b)
		if err != nil {
			return 0, err
		}
		if d := p.injector.delay(); d > 0 && !p.delayed {
			p.delayed = true
			time.Sleep(d)
		}
		if p.left >= 0 {
			n = min(n, p.left)
			p.left -= n
		}
		p.injector.mu.Lock()
		p.in = p.injector.stream(p.in, b[:n])
		p.injector.mu.Unlock()
	}
	n := copy(b, p.in)
	p.in = p.in[:copy(p.in, p.in[n:])]
	return n, nil
}
