package sim

import (
	"bytes"
	"errors"
	"math"
	"math/bits"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"hilgate/model/link"
)

func echo(dst, in []byte) []byte { return append(dst, in...) }

func TestSoundWireChangesNothing(t *testing.T) {
	p := NewInjector(Faults{Seed: 1}).Peer(feed(echo))
	if got := p.Feed([]byte("x"), []byte("abc")); string(got) != "xabc" {
		t.Errorf("got %q, want xabc", got)
	}
}

func TestSameSeedGivesTheSameFaults(t *testing.T) {
	run := func(seed uint64) []byte {
		i := NewInjector(Faults{Seed: seed, Flip: 0.1, Drop: 0.1, Noise: 0.1, Cut: 0.1, Late: 0.1, Duplicate: 0.1})
		p := i.Peer(feed(echo))
		var out []byte
		for range 100 {
			out = p.Feed(out, []byte("0123456789"))
		}
		return out
	}
	if !bytes.Equal(run(7), run(7)) {
		t.Error("two runs of seed 7 differ")
	}
	if bytes.Equal(run(7), run(8)) {
		t.Error("seeds 7 and 8 give the same")
	}
}

func TestFlipsComeAsOftenAsAsked(t *testing.T) {
	i := NewInjector(Faults{Flip: 0.01})
	const n = 100_000
	out := i.Peer(feed(echo)).Feed(nil, make([]byte, n)) // damaged on the way there and back
	flipped := 0
	for _, b := range out {
		flipped += bits.OnesCount8(b)
	}
	if rate := float64(i.Counts().Flips) / (2 * n); math.Abs(rate-0.01) > 0.001 {
		t.Errorf("%v of the bytes were flipped, want 0.01", rate)
	}
	if d := int(i.Counts().Flips) - flipped; d < 0 || d > 20 { // the same bit twice
		t.Errorf("%d bits are wrong, %d flips were counted", flipped, i.Counts().Flips)
	}
}

func TestEachSerialFaultDoesWhatItsNameSays(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults Faults
		want   []string // the answers to "ab" and to "cd"
		counts FaultCounts
	}{
		{"silence", Faults{Silence: 1}, []string{"", ""}, FaultCounts{Silences: 2}},
		{"drop", Faults{Drop: 1}, []string{"", ""}, FaultCounts{Drops: 4}},
		{"duplicate", Faults{Duplicate: 1}, []string{"abab", "cdcd"}, FaultCounts{Duplicates: 2}},
		{"late", Faults{Late: 1}, []string{"", "ab"}, FaultCounts{Lates: 2}},
		{"stuck", Faults{Stuck: true}, []string{"", ""}, FaultCounts{Stuck: 2}},
	} {
		i := NewInjector(c.faults)
		p := i.Peer(feed(echo))
		for n, in := range []string{"ab", "cd"} {
			if got := string(p.Feed(nil, []byte(in))); got != c.want[n] {
				t.Errorf("%s: %q is answered %q, want %q", c.name, in, got, c.want[n])
			}
		}
		if diff := cmp.Diff(c.counts, i.Counts()); diff != "" {
			t.Errorf("%s: counts (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestCutAnswersLoseTheirTail(t *testing.T) {
	p := NewInjector(Faults{Cut: 1}).Peer(feed(echo))
	sent := "abcdef"
	for range 100 {
		if got := string(p.Feed(nil, []byte(sent))); got == sent || !strings.HasPrefix(sent, got) {
			t.Fatalf("cut to %q", got)
		}
	}
}

func TestFaultsAreSetWhileTheWireRuns(t *testing.T) {
	i := NewInjector(Faults{})
	p := i.Peer(feed(echo))
	i.Set(Faults{Silence: 1})
	if got := p.Feed(nil, []byte("a")); len(got) != 0 {
		t.Errorf("silent wire answers %q", got)
	}
	i.Set(Faults{})
	if got := string(p.Feed(nil, []byte("a"))); got != "a" {
		t.Errorf("sound wire answers %q", got)
	}
	if i.Counts().Silences != 1 {
		t.Errorf("counts %+v", i.Counts())
	}
}

func TestWrappedPortIsDamagedBothWays(t *testing.T) {
	line := NewLine(NewBench(nil), feed(echo))
	i := NewInjector(Faults{})
	p := i.Port(line)
	sent := "abcdefghijklmnopqrst"
	ask := func() string {
		if n, err := p.Write([]byte(sent)); n != 20 || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
		var got []byte
		for b := make([]byte, 7); ; {
			n, err := p.Read(b)
			if errors.Is(err, link.Timeout) {
				return string(got)
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b[:n]...)
		}
	}
	if got := ask(); got != sent {
		t.Errorf("sound port: %q", got)
	}
	i.Set(Faults{Noise: 1})
	if got := ask(); len(got) != 80 { // doubled on the way out, and again on the way in
		t.Errorf("noisy port: %d bytes, want 80", len(got))
	}
	for _, f := range []Faults{{Silence: 1}, {Stuck: true}, {Drop: 1}} {
		i.Set(f)
		if got := ask(); got != "" {
			t.Errorf("%+v: %q, want nothing", f, got)
		}
	}
	i.Set(Faults{Cut: 1})
	if got := ask(); len(got) >= 16 || !strings.HasPrefix(sent, got) {
		t.Errorf("cut to %q", got)
	}
}

func TestRulesPickTheirTransactions(t *testing.T) {
	bus := NewBus(NewBench(nil), "test")
	bus.Attach(0x0b, reply(0x12, 0x34, 0x56))
	bus.Attach(0x0c, reply(0x12, 0x34, 0x56))
	voltage := uint8(0x09)
	for _, c := range []struct {
		name    string
		rule    Rule
		fails   []bool // 0x0b command 9 three times, then command 8, then 0x0c command 9
		becomes link.Kind
	}{
		{"all", Rule{Fault: RuleNACK}, []bool{true, true, true, true, true}, link.NACK},
		{"an address", Rule{Fault: RuleIO, Address: 0x0c}, []bool{false, false, false, false, true}, link.IO},
		{"a command", Rule{Fault: RuleTimeout, Command: &voltage}, []bool{true, true, true, false, true}, link.Timeout},
		{"the second", Rule{Fault: RuleArbitration, After: 1, Times: 1}, []bool{false, true, false, false, false}, link.Arbitration},
		{"from the third", Rule{Fault: RuleGone, After: 2}, []bool{false, false, true, true, true}, link.Closed},
	} {
		b := NewInjector(Faults{Rules: []Rule{c.rule}}).Bus(bus)
		for n, x := range []struct {
			addr    uint16
			command byte
		}{{0x0b, 9}, {0x0b, 9}, {0x0b, 9}, {0x0b, 8}, {0x0c, 9}} {
			err := b.Tx(x.addr, []byte{x.command}, make([]byte, 3))
			if (err != nil) != c.fails[n] || err != nil && link.KindOf(err) != c.becomes {
				t.Errorf("%s: transaction %d: %v, want failure %v of kind %v", c.name, n, err, c.fails[n], c.becomes)
			}
		}
	}
}

func TestRulesDamageAnswers(t *testing.T) {
	bus := NewBus(NewBench(nil), "test")
	n := byte(0)
	bus.Attach(0x0b, targetOf(func(w, r []byte) error {
		n++
		copy(r, []byte{n, 0x81, 0x42})
		return nil
	}))
	ask := func(f RuleFault) []byte {
		n = 0
		b := NewInjector(Faults{Rules: []Rule{{Fault: f, After: 1}}}).Bus(bus)
		r := make([]byte, 3)
		for range 2 {
			if err := b.Tx(0x0b, []byte{9}, r); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	for f, want := range map[RuleFault][]byte{
		RuleOnes:  {0xff, 0xff, 0xff},
		RuleStale: {1, 0x81, 0x42},
		RuleShift: {0x81, 0x40, 0xa1}, // 02 81 42, a bit late
	} {
		if got := ask(f); !bytes.Equal(got, want) {
			t.Errorf("%s: % x, want % x", f, got, want)
		}
	}
	if got := ask(RuleBadPEC); !bytes.Equal(got[:2], []byte{2, 0x81}) || got[2] == 0x42 {
		t.Errorf("bad_pec: % x, want 02 81 and another byte than 42", got)
	}
	wrong := 0
	for i, b := range ask(RuleFlip) {
		wrong += bits.OnesCount8(b ^ []byte{2, 0x81, 0x42}[i])
	}
	if wrong != 1 {
		t.Errorf("flip: %d bits are wrong, want 1", wrong)
	}
}

type targetOf func(w, r []byte) error

func (f targetOf) Tx(w, r []byte) error { return f(w, r) }

func TestWrittenBytesAreDamagedButNotTheCallers(t *testing.T) {
	bus := NewBus(NewBench(nil), "test")
	var got []byte
	bus.Attach(0x0b, targetOf(func(w, r []byte) error {
		got = bytes.Clone(w)
		return nil
	}))
	w := []byte{1, 2, 3}
	if err := NewInjector(Faults{Flip: 1}).Bus(bus).Tx(0x0b, w, nil); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, w) || !bytes.Equal(w, []byte{1, 2, 3}) {
		t.Errorf("the device got % x, the caller keeps % x", got, w)
	}
}

func TestDelayAndHangTakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := NewBus(NewBench(nil), "test")
		bus.Attach(0x0b, reply(1))
		b := NewInjector(Faults{Delay: 10 * time.Millisecond, Rules: []Rule{{Fault: RuleTimeout, Hang: time.Second, Times: 1}}}).Bus(bus)
		for _, want := range []time.Duration{1010 * time.Millisecond, 10 * time.Millisecond} {
			start := time.Now()
			_ = b.Tx(0x0b, []byte{1}, make([]byte, 1))
			if got := time.Since(start); got != want {
				t.Errorf("took %v, want %v", got, want)
			}
		}
	})
}

func TestFaultsAreReadFromYAMLAndChecked(t *testing.T) {
	var f Faults
	const text = `{seed: 3, flip: 0.01, delay: 5ms, rules: [{address: 0x0b, command: 9, fault: nack, times: 2}]}`
	if err := yaml.Load([]byte(text), &f, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	if f.Seed != 3 || f.Flip != 0.01 || f.Delay != 5*time.Millisecond || len(f.Rules) != 1 || *f.Rules[0].Command != 9 {
		t.Errorf("read %+v", f)
	}
	if err := f.Check(); err != nil {
		t.Errorf("sound faults: %v", err)
	}
	bad := Faults{Flip: 1.1, Drop: -1, NACK: math.NaN(), Delay: -1, Rules: []Rule{{Fault: "nak"}, {Fault: RuleNACK, Address: 0x80}}}
	err := bad.Check()
	for _, key := range []string{"flip", "drop", "nack", "delay", "rules[0]: fault", "rules[1]: address"} {
		if err == nil || !strings.Contains(err.Error(), key+":") {
			t.Errorf("%v does not name %s", err, key)
		}
	}
}
