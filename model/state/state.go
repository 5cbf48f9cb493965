// Package state is the store: the single writer of the robot's state. It takes what the pollers observe,
// what the loops sample and what people order, runs the fusion of each pack, sets the permits that follow
// from it, and publishes an immutable snapshot of the whole robot: at once when a pack was read or a status, a
// fault or a permit has changed, and at most 50 times a second when only joints have moved.
package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"hilgate/bms"
	"hilgate/model"
	"hilgate/model/permit"
	"hilgate/motor"
)

const (
	publishEvery = 20 * time.Millisecond  // between two snapshots that differ in the joints' figures only
	freshEvery   = time.Millisecond       // between two that differ in the packs' figures only
	tickEvery    = 100 * time.Millisecond // between two looks at what has gone silent

	// A loop that has told nothing for silentAfter, and for silentPeriods of its periods, hangs in its port.
	silentAfter   = time.Second
	silentPeriods = 3
)

// ErrStopping is the answer to an order that came when the store had ended.
var ErrStopping = errors.New("the gateway is stopping")

// Group tells the store about one group of joints; its place in Config.Groups is Sample.Group.
type Group struct {
	Name, Driver string
	Joints       []motor.Joint
	Period       time.Duration                       // of its loop
	Permits      []*permit.Word                      // one a joint
	Identity     func() (id motor.Identity, ok bool) // asked at each reconnection; may be nil
}

// Config describes a store.
type Config struct {
	Robot     string
	Simulated bool // at least one device is a simulator
	Batteries []Battery
	Groups    []Group

	Observations <-chan bms.Observation
	Samples      <-chan motor.Sample
}

// Store is the writer. Latest, Changed and the orders may be used from any goroutine.
type Store struct {
	config Config
	packs  []*pack
	groups []motor.State
	joints map[string]*permit.Word
	safety model.Safety
	seq    uint64
	shown  time.Time // when the last snapshot was published
	news   news      // what has changed since

	estop   sync.Mutex
	engaged uint64 // emergency stops so far; under estop. safety.EStops are those that have been recorded

	latest  atomic.Pointer[model.Snapshot]
	mu      sync.Mutex
	changed chan struct{} // closed by the next snapshot; under mu

	orders chan order
	done   chan struct{} // closed when Run has ended
}

// news says how soon a change is to be seen.
type news uint8

const (
	nothing news = iota
	moved        // joints: within publishEvery
	read         // packs: within freshEvery
	urgent       // a status, a fault or a permit: at once
)

// wait is the least time between two snapshots for such news.
func (n news) wait() time.Duration {
	switch n {
	case moved:
		return publishEvery
	case read:
		return freshEvery
	}
	return 0
}

type order struct {
	do    func(at time.Time) error
	reply chan error
}

// New makes a store. From then on every joint is withheld until its pack is known (permit.BatteryLost);
// its loop withholds it until its controller has answered.
func New(c Config) (*Store, error) {
	s := &Store{
		config: c, joints: map[string]*permit.Word{}, changed: make(chan struct{}),
		orders: make(chan order, 64), done: make(chan struct{}),
	}
	for _, g := range c.Groups {
		state := motor.State{Name: g.Name, Driver: g.Driver}
		for i, j := range g.Joints {
			state.Joints = append(state.Joints, motor.JointState{
				Name: j.Name, Prismatic: j.Prismatic,
				JointSample: motor.JointSample{Feedback: motor.Unmeasured(), Withheld: g.Permits[i].Reasons()},
			})
			s.joints[j.Name] = g.Permits[i]
		}
		s.groups = append(s.groups, state)
	}
	for _, b := range c.Batteries {
		p, err := newPack(b)
		if err != nil {
			return nil, err
		}
		s.packs = append(s.packs, p)
	}
	s.permit()
	s.publish(time.Now())
	return s, nil
}

// Latest returns the newest state of the robot. It is shared: do not modify it.
func (s *Store) Latest() *model.Snapshot { return s.latest.Load() }

// Changed returns a channel that is closed when a newer snapshot than the present one is published.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Run consumes until ctx ends, takes what is still waiting, and publishes a last snapshot.
func (s *Store) Run(ctx context.Context) error {
	defer close(s.done)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	for {
		select {
		case o := <-s.config.Observations:
			s.observe(o)
		case m := <-s.config.Samples:
			s.sample(&m)
		case o := <-s.orders:
			at := time.Now()
			err := o.do(at)
			if s.news == urgent {
				s.publish(at) // whoever is answered finds it in the snapshot
			}
			o.reply <- err
		case at := <-tick.C:
			s.tick(at)
		case <-due.C:
		case <-ctx.Done():
			s.finish()
			return nil
		}
		if s.news == nothing {
			continue
		}
		now := time.Now()
		if left := s.news.wait() - now.Sub(s.shown); left > 0 {
			due.Reset(left)
		} else {
			s.publish(now)
		}
	}
}

// finish takes what was sent before the end.
func (s *Store) finish() {
	for {
		select {
		case o := <-s.config.Observations:
			s.observe(o)
		case m := <-s.config.Samples:
			s.sample(&m)
		default:
			s.tick(time.Now())
			s.publish(time.Now())
			return
		}
	}
}

func (s *Store) observe(o bms.Observation) {
	for _, p := range s.packs {
		if p.state.Name == o.Pack {
			s.note(p.observe(o, s.work(p)), read)
			s.permit()
			return
		}
	}
}

func (s *Store) tick(at time.Time) {
	for _, p := range s.packs {
		s.note(p.tick(at, s.work(p)), moved)
	}
	for i := range s.groups {
		s.note(s.hangs(i, at), nothing)
	}
	s.permit()
}

// hangs takes the controller of a group for lost whose loop tells nothing any more, so that what it told
// last does not look fresh. It reports whether it did so now.
func (s *Store) hangs(group int, at time.Time) bool {
	g := &s.groups[group]
	silence := at.Sub(g.At)
	if !g.Connected || silence <= max(silentAfter, silentPeriods*s.config.Groups[group].Period) {
		return false
	}
	g.Connected = false
	g.LastError = fmt.Sprintf("%s: its loop hangs: silent for %v", g.Name, silence.Round(time.Millisecond))
	return true
}

// work is the electrical power of the joints that a pack feeds.
func (s *Store) work(p *pack) float64 {
	sum := 0.0
	for i := range s.groups {
		for k := range s.groups[i].Joints {
			j := &s.groups[i].Joints[k]
			if w := float64(j.Feedback.Power); p.feeds[j.Name] && w == w && s.groups[i].Connected {
				sum += w
			}
		}
	}
	return sum
}

func (s *Store) sample(m *motor.Sample) {
	g := &s.groups[m.Group]
	changed := g.Connected != m.Connected || g.Trajectory.Changed != m.Trajectory.Changed ||
		g.Trajectory.Active != m.Trajectory.Active || g.Trajectory.ID != m.Trajectory.ID
	if m.Connected && !g.Connected {
		if identify := s.config.Groups[m.Group].Identity; identify != nil {
			g.Identity, _ = identify()
		}
	}
	g.Connected, g.Trajectory, g.Counts = m.Connected, m.Trajectory, m.Counts
	switch {
	case m.Err != nil:
		g.LastError = m.Err.Error()
	case m.Connected:
		g.LastError = ""
	}
	if m.Connected {
		g.At = m.At
	}
	for i := range m.N {
		j := &g.Joints[i]
		changed = changed || j.Withheld != m.Joints[i].Withheld || j.Limited != m.Joints[i].Limited ||
			j.Feedback.Faults != m.Joints[i].Feedback.Faults
		j.JointSample = m.Joints[i]
	}
	s.note(changed, moved)
}

// note remembers that something is to be published: at once if it has changed what people act on.
func (s *Store) note(changed bool, otherwise news) {
	if changed {
		otherwise = urgent
	}
	s.news = max(s.news, otherwise)
}

// permit sets on every joint what follows from the packs that feed it: any of them lost or empty stops it.
func (s *Store) permit() {
	for name, word := range s.joints {
		lost, empty := false, false
		for _, p := range s.packs {
			if p.feeds[name] {
				lost = lost || p.state.Quality == bms.Invalid || p.state.Quality == bms.Stale
				empty = empty || p.state.Empty
			}
		}
		word.Set(permit.BatteryLost, lost)
		word.Set(permit.BatteryEmpty, empty)
	}
}

func (s *Store) publish(at time.Time) {
	s.seq++
	snap := &model.Snapshot{
		Robot: s.config.Robot, Seq: s.seq, At: at, Safety: s.safety, Simulated: s.config.Simulated,
		Packs: make([]bms.State, len(s.packs)), Groups: make([]motor.State, len(s.groups)),
	}
	for i, p := range s.packs {
		snap.Packs[i] = p.state
	}
	for i := range s.groups {
		snap.Groups[i] = s.groups[i]
		snap.Groups[i].Joints = append([]motor.JointState(nil), s.groups[i].Joints...)
		for k := range snap.Groups[i].Joints {
			// What stands now, and what the loop has last acted on.
			j := &snap.Groups[i].Joints[k]
			j.Withheld |= s.joints[j.Name].Reasons()
			snap.Safety.Withheld |= j.Withheld
		}
	}
	s.shown, s.news = at, nothing
	s.latest.Store(snap)
	s.mu.Lock()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}
