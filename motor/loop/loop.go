// Package loop owns one bus of joints. At a fixed rate it reads what the controller tells, moves the
// trajectory on, steps the PIDs, asks the gate, and writes the commands, all in one goroutine:
//
//	group.Read → trajectory → position and velocity PID → gate → group.Write → sample
//
// A joint runs only while its permit word gives no reason against it. The loop itself sets three of them:
//
//   - permit.DeviceLost, from the beginning, and again when the port is gone or three exchanges in a row
//     have failed, or when the loop itself has stood still, until the controller is armed and has answered
//     once. Meanwhile the port is closed and opened anew, after a wait that doubles from 100 ms to 5 s;
//   - permit.DeviceFault while the controller reports a fault that disables the joint, or while the gate
//     has it stopped for heat or a tracking error;
//   - permit.CommandStale when no trajectory has come for the command timeout, until the next one comes.
//
// Whoever takes a joint's permit away also ends the trajectory that names it: nothing goes on by itself.
// While a joint is withheld its target follows where it is and its PIDs forget, so that it rests where it
// stands when it may run again, and moves only for a new trajectory.
//
// A stop is written in every tick, like any command: a damaged one is made good by the next, and the
// controller's own timeout then bites when the loop is dead, and only then. An exchange that failed
// changes nothing but that: of a tick without an answer no value is used, no sample is sent, and only
// stops are written.
//
// The control law knows no clock but the instant that Tick is given. The clock is read for time stamps,
// for measuring durations, and to place a trajectory's header stamp.
package loop

import (
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"hilgate/model/link"
	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
	"hilgate/motor/gate"
	"hilgate/motor/trajectory"
)

const (
	firstRetry = 100 * time.Millisecond // between two attempts to open
	lastRetry  = 5 * time.Second
	lostAfter  = 3 // failed exchanges in a row

	// A loop that has stood still for stallAfter, and for stallPeriods of its periods (the process was
	// suspended, or the port held it), has left its controller to the controller's own timeout.
	stallAfter   = 500 * time.Millisecond
	stallPeriods = 5
)

// DefaultStopWait is how long Run waits for the joints to come to rest, if Config does not say.
const DefaultStopWait = time.Second

// Config describes a loop.
type Config struct {
	Name  string // of the group, for errors and logs
	Group int    // Sample.Group

	// Open opens the port and makes the group on it, without touching the controller. The loop closes it.
	Open func() (motor.Group, io.Closer, error)

	Joints  []motor.Joint
	Axes    []Axis         // one a joint
	Permits []*permit.Word // one a joint

	// Gazebo chooses Gazebo's mode of the Controller.
	Gazebo bool

	Period time.Duration

	// CommandTimeout is how long joints may run after a trajectory was received, or after the first tick.
	// 0 is for ever. A trajectory is not prolonged by being long: whoever streams must go on streaming.
	CommandTimeout time.Duration

	// StopWait bounds the wait for rest at the end of Run. 0 is DefaultStopWait.
	StopWait time.Duration

	// Samples takes a copy of each tick. If it is full, or nil, the sample is dropped and counted.
	Samples chan<- motor.Sample

	Observe Observers
	Log     *slog.Logger
}

// Observers are told durations in seconds, each tick. Any may be nil.
type Observers struct {
	Wakeup  func(seconds float64) // how late the tick began
	Read    func(seconds float64)
	Control func(seconds float64)
	Write   func(seconds float64)
}

// Loop is the owner of a bus of joints. Follow and Identity may be called from any goroutine; Tick and Run
// belong to one.
type Loop struct {
	config     Config
	names      []string
	controller *Controller
	gates      []gate.State
	estop      []bool // by joint: at the last tick
	feedback   []motor.Feedback
	fresh      []motor.Feedback // what a Read fills; of use only if it succeeds
	reasons    []permit.Reason
	wanted     []motor.Command
	commands   []motor.Command
	limited    []motor.Limit

	newest   atomic.Pointer[order]
	identity atomic.Pointer[motor.Identity]

	group     motor.Group // nil while the port is closed
	port      io.Closer
	connected bool // the controller has answered since the port was opened
	failures  int  // exchanges in a row
	retry     time.Duration
	openAt    time.Duration
	lost      error // why the controller does not answer

	begun     bool
	ticked    time.Duration // the last tick
	stepped   time.Duration // the last one that stepped the controller
	commanded time.Duration // when the last trajectory came
	following uint32        // joints that the trajectory names, as bits
	progress  motor.Progress
	counts    motor.LoopCounts
	sample    motor.Sample
}

// order is a trajectory with its columns found.
type order struct {
	trajectory *trajectory.Trajectory
	columns    []int
	joints     uint32
}

// New makes a loop; it opens nothing. From then on its joints are withheld until the controller answers.
// Joints, Axes and Permits of different lengths, or more than motor.MaxJoints, are a programming error and
// panic.
func New(c Config) *Loop {
	n := len(c.Joints)
	if len(c.Axes) != n || len(c.Permits) != n || n > motor.MaxJoints || c.Period <= 0 {
		panic(fmt.Sprintf("loop %s: %d joints, %d axes, %d permits, period %v", c.Name, n, len(c.Axes), len(c.Permits), c.Period))
	}
	if c.StopWait == 0 {
		c.StopWait = DefaultStopWait
	}
	l := &Loop{
		config: c, controller: NewController(c.Axes, c.Gazebo), gates: make([]gate.State, n),
		estop: make([]bool, n), feedback: make([]motor.Feedback, n), fresh: make([]motor.Feedback, n),
		reasons: make([]permit.Reason, n), wanted: make([]motor.Command, n), commands: make([]motor.Command, n),
		limited: make([]motor.Limit, n), retry: firstRetry, lost: fmt.Errorf("%s: %w: not opened yet", c.Name, link.Closed),
	}
	for i := range c.Joints {
		l.names = append(l.names, c.Joints[i].Name)
		l.feedback[i] = motor.Unmeasured()
	}
	l.withhold(permit.DeviceLost)
	return l
}

// Follow has the joints follow a trajectory from the next tick on, in place of the present one. The newest
// wins. If a joint that it names may not run by then, it is abandoned at once. Of its joints, those of other
// loops are skipped.
func (l *Loop) Follow(t *trajectory.Trajectory) {
	o := &order{trajectory: t, columns: t.Columns(l.names)}
	for _, i := range o.columns {
		if i >= 0 {
			o.joints |= 1 << i
		}
	}
	l.newest.Store(o)
}

// Identity is what the controller said of itself when it answered last; known is false before, and for a
// controller that says nothing.
func (l *Loop) Identity() (id motor.Identity, known bool) {
	if p := l.identity.Load(); p != nil {
		return *p, true
	}
	return id, false
}

// Tick is one period of the loop. at is its place on the grid of periods and must not fall. It blocks as
// long as the port does, and allocates nothing while the controller answers and no trajectory comes.
func (l *Loop) Tick(at time.Duration) {
	began := time.Now()
	l.count(at)
	if gap := at - l.ticked; gap > max(stallAfter, stallPeriods*l.config.Period) && l.group != nil {
		l.lose(at, fmt.Errorf("the loop stood still for %v", gap))
	}
	l.ticked = at
	l.receive(at)
	if l.group == nil {
		l.open(at)
	}
	if l.group == nil {
		l.stops()
		l.send(began)
	} else if l.exchange(at) {
		l.send(began)
	}
	if time.Since(began) > l.config.Period {
		l.counts.Overruns++
	}
}

func (l *Loop) count(at time.Duration) {
	if !l.begun {
		l.begun, l.ticked, l.commanded, l.stepped = true, at, at, at-l.config.Period
	} else if missed := (at-l.ticked)/l.config.Period - 1; missed > 0 {
		l.counts.Skipped += uint64(missed)
	}
	l.counts.Cycles++
}

// receive takes a trajectory that has come, and sees when none has come for too long.
func (l *Loop) receive(at time.Duration) {
	o := l.newest.Swap(nil)
	if o == nil {
		if timeout := l.config.CommandTimeout; timeout > 0 && at-l.commanded > timeout {
			l.withhold(permit.CommandStale)
		}
		return
	}
	l.commanded = at
	l.grant(permit.CommandStale)
	l.controller.Tracker().Drop()
	l.following = o.joints
	l.progress.ID, l.progress.Active, l.progress.Ratio = o.trajectory.ID(), true, 0
	for i := range l.gates {
		if l.follows(i) {
			l.gates[i].Release()
			l.judge(i)
		}
	}
	if start := o.trajectory.Start(); start.IsZero() {
		l.controller.Tracker().Begin(o.trajectory, o.columns)
	} else {
		l.controller.Tracker().BeginAt(o.trajectory, o.columns, at+time.Until(start))
	}
	for i, word := range l.config.Permits { // before a step could show it as begun
		if r := word.Reasons(); r != 0 && l.follows(i) {
			l.abandon(i, r, 0)
		}
	}
}

// exchange is one read, control and write. It reports whether there was an answer, or whether the
// controller was lost over it: whether there is something to tell.
func (l *Loop) exchange(at time.Duration) (news bool) {
	now := time.Now()
	copy(l.fresh, l.feedback) // what is not told this time keeps its value
	err := l.group.Read(l.fresh)
	now = observe(l.config.Observe.Read, now)
	if err == nil {
		news = true
		l.feedback, l.fresh = l.fresh, l.feedback
		l.answered(at)
		l.control(at)
		now = observe(l.config.Observe.Control, now)
		err = l.group.Write(l.commands)
		observe(l.config.Observe.Write, now)
	} else if l.stops() {
		// The error of the read decides what happens next: it says more, and the write may have arrived.
		_ = l.group.Write(l.commands)
	}
	if err == nil {
		l.failures = 0
		return news
	}
	l.failures++
	if link.Lost(err) || l.failures >= lostAfter {
		l.lose(at, err)
		return true
	}
	return news
}

// observe tells how long something took, and what time it is now.
func observe(tell func(float64), since time.Time) time.Time {
	now := time.Now()
	if tell != nil {
		tell(now.Sub(since).Seconds())
	}
	return now
}

// control turns feedback into commands.
func (l *Loop) control(at time.Duration) {
	for i, word := range l.config.Permits {
		l.judge(i)
		r := word.Reasons()
		if l.estop[i] && r&permit.EStop == 0 { // it was released on purpose, and that is for the gate too
			l.gates[i].Release()
			l.judge(i)
			r = word.Reasons()
		}
		l.reasons[i], l.estop[i] = r, r&permit.EStop != 0
		if r != 0 {
			l.rest(i, 0)
		}
	}
	if l.controller.Step(at, at-l.stepped, l.feedback) {
		l.progress.Ratio = l.controller.Tracker().Progress()
		l.progress.Changed++
	}
	l.stepped = at
	l.progress.Active = l.controller.Tracker().Status() != trajectory.StatusReached
	for i := range l.config.Joints {
		joint := &l.config.Joints[i]
		l.wanted[i] = l.controller.Wanted(i, joint.Command)
		l.commands[i], l.limited[i] = gate.Apply(
			joint, &l.gates[i], &l.feedback[i], l.controller.Target(i), l.wanted[i], l.reasons[i])
		if l.commands[i].Mode != motor.ModeStop {
			l.controller.Granted(i, l.wanted[i], l.commands[i])
		} else if l.reasons[i] == 0 {
			l.judge(i)
			l.reasons[i] = l.config.Permits[i].Reasons()
			l.rest(i, l.limited[i])
		}
	}
}

// judge sets permit.DeviceFault of joint i, or takes it away.
func (l *Loop) judge(i int) {
	l.config.Permits[i].Set(permit.DeviceFault, l.feedback[i].Faults&motor.Disabling != 0 || l.gates[i].Tripped() != 0)
}

// rest has joint i, which is stopped, stay where it is. If a trajectory moves it, that ends.
func (l *Loop) rest(i int, limits motor.Limit) {
	if l.follows(i) {
		l.abandon(i, l.reasons[i], limits)
	}
	l.controller.Rest(i, l.feedback[i].Position)
}

// abandon ends the trajectory, if it still runs, because joint i may not. All its joints rest where they are.
func (l *Loop) abandon(i int, reasons permit.Reason, limits motor.Limit) {
	if !l.progress.Active {
		return
	}
	l.controller.Tracker().Drop()
	l.progress.Active = false
	for k := range l.config.Joints {
		if l.follows(k) {
			l.controller.Rest(k, l.feedback[k].Position)
		}
	}
	l.config.Log.Info("trajectory abandoned", "trajectory", l.progress.ID, "joint", l.names[i],
		"withheld", reasons.String(), "limits", limits.Names())
}

// follows reports whether the newest trajectory names joint i.
func (l *Loop) follows(i int) bool { return l.following&(1<<i) != 0 }

func (l *Loop) withhold(r permit.Reason) {
	for _, word := range l.config.Permits {
		word.Withhold(r)
	}
}

func (l *Loop) grant(r permit.Reason) {
	for _, word := range l.config.Permits {
		word.Grant(r)
	}
}

// send offers a copy of the tick to whoever takes it.
func (l *Loop) send(at time.Time) {
	s := &l.sample
	s.Group, s.At, s.N = l.config.Group, at, len(l.config.Joints)
	s.Connected, s.Err, s.Trajectory, s.Counts = l.connected, l.lost, l.progress, l.counts
	for i := range l.config.Joints {
		wanted := unit.Unknown[unit.Effort]()
		if l.wanted[i].Mode == motor.ModeEffort {
			wanted = l.wanted[i].Effort
		}
		s.Joints[i] = motor.JointSample{
			Feedback: l.feedback[i], Target: l.controller.Target(i), Wanted: wanted,
			Command: l.commands[i], Limited: l.limited[i], Withheld: l.reasons[i],
		}
	}
	select {
	case l.config.Samples <- *s:
	default:
		l.counts.Dropped++
	}
}
