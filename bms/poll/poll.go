// Package poll owns a bus of packs: it opens the bus, reads each pack when it is due, hands every poll on
// (failed ones too), and opens the bus anew, with growing patience, when it is lost.
package poll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"hilgate/bms"
	"hilgate/model/link"
	"hilgate/model/permit"
)

// The wait before a lost bus is opened again doubles from firstRetry to lastRetry. A bus on which every
// pack has been silent for stuckAfter, and for stuckPolls polls in a row, is opened anew too: an adapter can
// hang while its device node lives on.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	stuckAfter = 2 * time.Second
	stuckPolls = 3
)

// Pack is one pack on the bus.
type Pack struct {
	Name     string
	Interval time.Duration // between two polls
	Permit   *permit.Word  // while it holds LevelInactive or ShuttingDown, the pack is left alone
}

// Config describes a poller.
type Config struct {
	Bus   string // its name in the configuration
	Packs []Pack

	// Open opens the bus and makes its packs anew, in the order of Packs, without touching them.
	Open func() ([]bms.Pack, io.Closer, error)

	// Out takes the observations. A send blocks: losing one is worse than waiting.
	Out chan<- bms.Observation

	Log *slog.Logger
}

// Poller is the owner of one bus of packs. It belongs to one goroutine.
type Poller struct {
	config Config
	bus    io.Closer // nil while the bus is not open
	packs  []bms.Pack
	due    []time.Time
	misses []int     // by pack, in a row
	quiet  int       // failed polls of any pack since the last good one
	heard  time.Time // the last good one, or the opening
	retry  time.Duration
	openAt time.Time
	fault  string // of the last failure to open, so that a standing one is logged once
}

// New makes a poller; it opens nothing.
func New(c Config) *Poller {
	return &Poller{
		config: c, due: make([]time.Time, len(c.Packs)), misses: make([]int, len(c.Packs)), retry: firstRetry,
	}
}

// Tick polls the packs that are due at the instant at, and says when the next one is.
func (p *Poller) Tick(ctx context.Context, at time.Time) (next time.Time) {
	if p.bus == nil && !at.Before(p.openAt) {
		p.open(at)
	}
	for i := range p.config.Packs {
		if p.due[i].After(at) || ctx.Err() != nil {
			continue
		}
		p.due[i] = nextOnGrid(p.due[i], at, p.config.Packs[i].Interval)
		if p.config.Packs[i].Permit.Reasons()&(permit.LevelInactive|permit.ShuttingDown) != 0 {
			continue
		}
		p.poll(ctx, i, at)
	}
	for i := range p.due {
		if next.IsZero() || p.due[i].Before(next) {
			next = p.due[i]
		}
	}
	return next
}

// nextOnGrid is the next poll after at, whole intervals after the one that was due. Missed ones are
// skipped.
func nextOnGrid(due, at time.Time, interval time.Duration) time.Time {
	if due.IsZero() || at.Sub(due) > time.Minute {
		return at.Add(interval)
	}
	return due.Add(interval * (1 + at.Sub(due)/interval))
}

func (p *Poller) open(at time.Time) {
	packs, bus, err := p.config.Open()
	if err != nil {
		p.openAt = at.Add(p.retry)
		p.retry = min(2*p.retry, lastRetry)
		if p.fault != err.Error() {
			p.fault = err.Error()
			p.config.Log.Warn("bus does not open", "bus", p.config.Bus, "err", err)
		}
		return
	}
	p.bus, p.packs, p.fault, p.quiet, p.heard = bus, packs, "", 0, at
}

// lose closes the bus; it is opened again after a wait.
func (p *Poller) lose(at time.Time, why error) {
	p.config.Log.Warn("bus lost", "bus", p.config.Bus, "err", why)
	p.fault = why.Error()
	p.close()
	p.openAt = at.Add(p.retry)
	p.retry = min(2*p.retry, lastRetry)
}

func (p *Poller) close() {
	if p.bus != nil {
		p.bus.Close()
		p.bus, p.packs = nil, nil
	}
}

func (p *Poller) poll(ctx context.Context, i int, at time.Time) {
	o := bms.Observation{Pack: p.config.Packs[i].Name, At: at, Reading: bms.Unmeasured()}
	if p.bus == nil {
		o.Err = fmt.Errorf("%s: bus %s: %w: %s", o.Pack, p.config.Bus, link.Closed, p.fault)
	} else {
		var err error
		o.Reading, err = p.packs[i].Read(ctx, at)
		if errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			o.Err = fmt.Errorf("%s: %w", o.Pack, err)
		}
		if id, ok := p.packs[i].(bms.Identifier); ok {
			o.Identity, _ = id.Identity()
		}
	}
	before := p.misses[i]
	if o.Err == nil {
		p.misses[i], p.quiet, p.heard, p.retry = 0, 0, at, firstRetry
	} else {
		p.misses[i]++
		p.quiet++
	}
	o.Misses = p.misses[i]
	switch { // a change is logged, a standing fault is not
	case o.Err != nil && before == 0:
		p.config.Log.Warn("pack does not answer", "battery", o.Pack, "err", o.Err)
	case o.Err == nil && before > 0:
		p.config.Log.Info("pack answers again", "battery", o.Pack, "missed", before)
	}
	select {
	case p.config.Out <- o:
	case <-ctx.Done():
	}
	if p.bus != nil && o.Err != nil && (link.Lost(o.Err) || p.quiet >= stuckPolls*len(p.packs) && at.Sub(p.heard) >= stuckAfter) {
		p.lose(at, o.Err)
	}
}

// Run polls until ctx ends, and closes the bus however it returns.
func (p *Poller) Run(ctx context.Context) error {
	defer p.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			next := p.Tick(ctx, time.Now())
			timer.Reset(time.Until(next))
		}
	}
}
