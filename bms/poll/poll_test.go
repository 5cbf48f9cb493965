package poll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"hilgate/bms"
	"hilgate/model/link"
	"hilgate/model/permit"
)

// A pack that answers as it is told, to test the schedule; drivers are tested against their simulators.
type pack struct {
	reads int
	err   error
	took  time.Duration
}

func (p *pack) Read(context.Context, time.Time) (bms.Reading, error) {
	p.reads++
	time.Sleep(p.took)
	r := bms.Unmeasured()
	if p.err == nil {
		r.Voltage = 12
	}
	return r, p.err
}

type bus struct {
	packs  []*pack
	opens  int
	closes int
	fails  func() error // asked at each opening; may be nil
}

func (b *bus) open() ([]bms.Pack, io.Closer, error) {
	b.opens++
	if b.fails != nil {
		if err := b.fails(); err != nil {
			return nil, nil, err
		}
	}
	var all []bms.Pack
	for _, p := range b.packs {
		all = append(all, p)
	}
	return all, b, nil
}

func (b *bus) Close() error { b.closes++; return nil }

func newPoller(b *bus, words ...*permit.Word) (*Poller, chan bms.Observation) {
	out := make(chan bms.Observation, 10_000)
	c := Config{Bus: "gauge", Open: b.open, Out: out, Log: slog.New(slog.DiscardHandler)}
	for i := range b.packs {
		w := new(permit.Word)
		if i < len(words) {
			w = words[i]
		}
		c.Packs = append(c.Packs, Pack{Name: fmt.Sprint("p", i), Interval: time.Second, Permit: w})
	}
	return New(c), out
}

func run(t *testing.T, p *Poller, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestEachPackIsReadOnItsGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &pack{took: 300 * time.Millisecond}
		b := &bus{packs: []*pack{{}, slow}}
		p, out := newPoller(b)
		run(t, p, 10*time.Second-time.Millisecond)
		if b.packs[0].reads != 10 || slow.reads != 10 {
			t.Errorf("reads = %d and %d in 10 s at 1 Hz, want 10 and 10", b.packs[0].reads, slow.reads)
		}
		if len(out) != 20 || b.opens != 1 || b.closes != 1 {
			t.Errorf("observations %d, opens %d, closes %d; want 20, 1, 1", len(out), b.opens, b.closes)
		}
	})
}

func TestMissedPollsAreSkippedNotCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{packs: []*pack{{took: 2500 * time.Millisecond}}}
		p, _ := newPoller(b)
		run(t, p, 9500*time.Millisecond)
		if got := b.packs[0].reads; got != 4 { // at 0, 3, 6 and 9 s
			t.Errorf("a read of 2.5 s at 1 Hz was begun %d times in 9.5 s, want 4", got)
		}
	})
}

func TestALostBusIsOpenedAgainWithGrowingPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{packs: []*pack{{err: fmt.Errorf("read word: %w", link.Closed)}}}
		p, out := newPoller(b)
		begin := time.Now()
		b.fails = func() error {
			switch since := time.Since(begin); {
			case since < 1500*time.Millisecond:
			case since < time.Minute:
				return errors.New("no such file or directory")
			default:
				b.packs[0].err = nil
			}
			return nil
		}
		run(t, p, 90*time.Second)
		var last bms.Observation
		failed := 0
		for len(out) > 0 {
			last = <-out
			if last.Err != nil {
				failed++
				if !link.Lost(last.Err) {
					t.Fatalf("err = %v, want a lost link", last.Err)
				}
			}
		}
		if last.Err != nil || last.Misses != 0 {
			t.Errorf("last observation %+v, want a good one", last)
		}
		if failed < 50 || b.opens > 30 {
			t.Errorf("%d failed observations, %d opens: want every poll reported, and few opens", failed, b.opens)
		}
	})
}

func TestASilentBusIsOpenedAnewAfterThreePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{packs: []*pack{{err: link.Timeout}, {err: link.NACK}}}
		p, _ := newPoller(b)
		run(t, p, 2500*time.Millisecond)
		if b.closes < 1 || b.packs[0].reads != 3 {
			t.Errorf("after 3 silent polls: closes %d, reads %d; want the bus closed after 3 reads", b.closes, b.packs[0].reads)
		}
	})
}

func TestOneSilentPackLeavesTheOtherItsBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{packs: []*pack{{err: link.NACK}, {}}}
		p, _ := newPoller(b)
		run(t, p, 20*time.Second)
		if b.opens != 1 {
			t.Errorf("opens = %d, want 1: the other pack answers", b.opens)
		}
	})
}

func TestAPackWithoutPermitSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w permit.Word
		w.Withhold(permit.LevelInactive)
		b := &bus{packs: []*pack{{}}}
		p, _ := newPoller(b, &w)
		go func() { time.Sleep(5500 * time.Millisecond); w.Grant(permit.LevelInactive) }()
		run(t, p, 9500*time.Millisecond)
		if got := b.packs[0].reads; got != 4 { // at 6, 7, 8 and 9 s
			t.Errorf("reads = %d, want 4: none before the permit", got)
		}
	})
}
