package sim

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"periph.io/x/conn/v3/i2c"

	"hilgate/model/link"
)

// Rule makes chosen I²C transactions go wrong.
type Rule struct {
	Address uint16 `yaml:"address" json:"address"` // 7 bits; 0 is every one
	Command *uint8 `yaml:"command" json:"command"` // the first byte written; left out is every one
	After   int    `yaml:"after" json:"after"`     // so many such transactions pass first
	Times   int    `yaml:"times" json:"times"`     // and then so many go wrong; 0 is all that follow

	// Fault is what happens: see the constants of its type.
	Fault RuleFault     `yaml:"fault" json:"fault"`
	Hang  time.Duration `yaml:"hang" json:"hang"` // before it happens
}

// RuleFault names a fault of an I²C transaction.
type RuleFault string

const (
	RuleNACK        RuleFault = "nack"        // address or command is not acknowledged
	RuleTimeout     RuleFault = "timeout"     // the adapter gives up; with Hang, after that time
	RuleIO          RuleFault = "io"          // the adapter fails
	RuleArbitration RuleFault = "arbitration" // another master wins
	RuleUnsupported RuleFault = "unsupported" // the adapter cannot do this transaction: EOPNOTSUPP
	RuleGone        RuleFault = "gone"        // the whole adapter is unplugged: ENODEV

	// The answer arrives, but is not what the device sent.
	RuleFlip   RuleFault = "flip"    // one bit, that the dice choose, is inverted
	RuleShift  RuleFault = "shift"   // all bits come one later, as after a stretched clock on a BCM2835
	RuleBadPEC RuleFault = "bad_pec" // the last byte is wrong
	RuleStale  RuleFault = "stale"   // the previous answer on the bus comes again
	RuleOnes   RuleFault = "ones"    // every byte is 0xff, as on a bus that nobody drives
)

var ruleErrors = map[RuleFault]error{
	RuleNACK: link.NACK, RuleTimeout: link.Timeout, RuleIO: link.IO, RuleArbitration: link.Arbitration,
	RuleUnsupported: fmt.Errorf("%w: %w", link.IO, syscall.EOPNOTSUPP),
	RuleGone:        link.Closed,
}

var ruleAnswers = []RuleFault{RuleFlip, RuleShift, RuleBadPEC, RuleStale, RuleOnes}

func (r Rule) check() error {
	if _, ok := ruleErrors[r.Fault]; !ok && !slices.Contains(ruleAnswers, r.Fault) {
		return fmt.Errorf("fault: %q is none of nack, timeout, io, arbitration, unsupported, gone, flip, shift, bad_pec, stale, ones", r.Fault)
	}
	if r.Address > 0x7f {
		return fmt.Errorf("address: 0x%02x: want 7 bits", r.Address)
	}
	if r.After < 0 || r.Times < 0 || r.Hang < 0 {
		return errors.New("after, times and hang: want 0 or more")
	}
	return nil
}

func (r Rule) matches(addr uint16, w []byte) bool {
	return (r.Address == 0 || r.Address == addr) && (r.Command == nil || len(w) > 0 && w[0] == *r.Command)
}

// Bus puts the injector on an I²C bus, a real one included. The bus's counters stay within reach.
func (i *Injector) Bus(b i2c.Bus) *FaultyBus {
	return &FaultyBus{Bus: b, injector: i, counters: link.Of(b)}
}

// FaultyBus is an I²C bus on which an Injector works.
type FaultyBus struct {
	i2c.Bus
	injector *Injector
	counters *link.Counters
	previous []byte // the last answer that arrived; guarded by the injector
}

var _ i2c.BusCloser = (*FaultyBus)(nil)

// Counters are those of the bus beneath.
func (b *FaultyBus) Counters() *link.Counters { return b.counters }

// Close closes the bus beneath, if it can be closed.
func (b *FaultyBus) Close() error {
	if c, ok := b.Bus.(i2c.BusCloser); ok {
		return c.Close()
	}
	return nil
}

// Tx does one transaction, damaged both ways. Its own failures are link kinds.
func (b *FaultyBus) Tx(addr uint16, w, r []byte) error {
	i := b.injector
	rule, ruled, nack, stuck, delay, sent := i.before(addr, w)
	if delay > 0 {
		time.Sleep(delay)
	}
	switch {
	case stuck:
		return link.Timeout
	case ruled:
		if err, ok := ruleErrors[rule]; ok {
			return err
		}
	case nack:
		return link.NACK
	}
	if err := b.Bus.Tx(addr, sent, r); err != nil {
		return err
	}
	b.after(rule, r)
	return nil
}

// before decides what happens to a transaction. sent is w as it reaches the device.
func (i *Injector) before(addr uint16, w []byte) (rule RuleFault, ruled, nack, stuck bool, delay time.Duration, sent []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delay, sent = i.faults.Delay, w
	if i.faults.Stuck {
		i.counts.Stuck++
		return "", false, false, true, delay, sent
	}
	for n, r := range i.faults.Rules {
		if !r.matches(addr, w) {
			continue
		}
		i.hits[n]++
		if met := i.hits[n] - r.After; met > 0 && (r.Times == 0 || met <= r.Times) {
			i.counts.Ruled++
			return r.Fault, true, false, false, delay + r.Hang, sent
		}
	}
	nack = i.hit(i.faults.NACK, &i.counts.NACKs)
	if i.faults.Flip > 0 {
		sent = slices.Clone(w) // w is the caller's
		i.flip(sent)
	}
	return "", false, nack, false, delay, sent
}

// after damages an answer.
func (b *FaultyBus) after(rule RuleFault, r []byte) {
	i := b.injector
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(r) == 0 {
		return
	}
	stale := rule == RuleStale || i.hit(i.faults.Late, &i.counts.Lates)
	fresh := slices.Clone(r)
	switch {
	case stale:
		fill(r[copy(r, b.previous):], 0xff)
	case rule == RuleOnes:
		fill(r, 0xff)
	case rule == RuleFlip:
		r[i.dice.IntN(len(r))] ^= 1 << i.dice.IntN(8)
	case rule == RuleBadPEC:
		r[len(r)-1] ^= byte(1 + i.dice.IntN(255))
	case rule == RuleShift:
		carry := byte(1) // the line rests high
		for n, c := range r {
			r[n] = carry<<7 | c>>1
			carry = c & 1
		}
	}
	b.previous = fresh
	if i.hit(i.faults.Cut, &i.counts.Cuts) {
		fill(r[i.dice.IntN(len(r)):], 0xff)
	}
	if i.hit(i.faults.Silence, &i.counts.Silences) {
		fill(r, 0xff)
	}
	i.flip(r)
}

func fill(b []byte, c byte) {
	for n := range b {
		b[n] = c
	}
}
