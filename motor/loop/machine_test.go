package loop

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
	"hilgate/motor/pid"
	"hilgate/motor/trajectory"
)

const period = 10 * time.Millisecond

// machine is a controller with its joints, in memory: each Read lets a period pass. What it is told by
// Write, it does until the next one.
type machine struct {
	dt                 float64
	position, velocity []float64
	coast              int // Reads for which stopped joints go on; then they stand at once
	feedback           motor.Feedback
	told               []motor.Command

	panics bool // on Read

	openErr, armErr, readErr, writeErr, stopErr error
	opens, arms, writes, stops, closes          int
	deaf                                        int // Stops until stopErr is over; 0 is never
}

func newMachine(joints int) *machine {
	return &machine{
		dt: period.Seconds(), position: make([]float64, joints), velocity: make([]float64, joints),
		feedback: motor.Unmeasured(), told: make([]motor.Command, joints),
	}
}

func (m *machine) open() (motor.Group, io.Closer, error) {
	m.opens++
	return m, m, m.openErr
}

func (m *machine) Close() error {
	m.closes++
	return nil
}

func (m *machine) Arm() error {
	m.arms++
	clear(m.told)
	return m.armErr
}

func (m *machine) Stop() error {
	m.stops++
	if m.deaf > 0 && m.stops > m.deaf {
		m.stopErr = nil
	}
	if m.stopErr == nil {
		clear(m.told)
	}
	return m.stopErr
}

func (m *machine) Read(fb []motor.Feedback) error {
	if m.panics {
		panic("a driver's mistake")
	}
	for i, told := range m.told {
		switch told.Mode {
		case motor.ModeEffort: // 1 kg m², some friction
			m.velocity[i] += (float64(told.Effort) - 0.2*m.velocity[i]) * m.dt
		case motor.ModeVelocity:
			m.velocity[i] = float64(told.Velocity)
		case motor.ModePosition:
			m.velocity[i] = (float64(told.Position) - m.position[i]) / m.dt
		default:
			if m.coast == 0 {
				m.velocity[i] = 0
			}
		}
		m.position[i] += m.velocity[i] * m.dt
		fb[i] = m.feedback
		if m.readErr == nil {
			fb[i].Position, fb[i].Velocity = unit.Position(m.position[i]), unit.Velocity(m.velocity[i])
		}
	}
	m.coast = max(m.coast-1, 0)
	return m.readErr
}

func (m *machine) Write(cmd []motor.Command) error {
	m.writes++
	if m.writeErr == nil {
		copy(m.told, cmd)
	}
	return m.writeErr
}

func (m *machine) Identity() (motor.Identity, bool) {
	return motor.Identity{Model: "machine"}, m.arms > 0
}

// rig is a loop on a machine of two joints, left and right.
type rig struct {
	*Loop
	machine *machine
	words   []*permit.Word
	samples chan motor.Sample
	now     time.Duration
	taken   []trajectory.Joint
}

func newRig(change func(*Config)) *rig {
	r := &rig{machine: newMachine(2), words: []*permit.Word{new(permit.Word), new(permit.Word)}}
	r.samples = make(chan motor.Sample, 1)
	axis := Axis{Position: pid.Default(), Velocity: pid.Default()}
	axis.Position.PGain, axis.Position.DGain = 100, 20
	c := Config{
		Name: "base", Group: 3, Open: r.machine.open, Permits: r.words, Period: period, Samples: r.samples,
		Joints: []motor.Joint{motor.NewJoint("left", 1), motor.NewJoint("right", 2)},
		Axes:   []Axis{axis, axis}, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&c)
	}
	r.Loop = New(c)
	for _, j := range c.Joints {
		r.taken = append(r.taken, trajectory.Joint{Name: j.Name, Limits: motor.NewJoint("", 0).Limits})
	}
	r.now = -period
	return r
}

// tick lets n periods pass and returns the last sample; the zero Sample if none was sent.
func (r *rig) tick(n int) (last motor.Sample) {
	for range n {
		r.now += period
		r.Tick(r.now)
		last = motor.Sample{}
		select {
		case last = <-r.samples:
		default:
		}
	}
	return last
}

// ready ticks until the joints may run.
func (r *rig) ready(t *testing.T) {
	t.Helper()
	if s := r.tick(2); !s.Connected || s.Joints[0].Command.Mode == motor.ModeStop {
		t.Fatalf("not ready: %v %+v", s.Err, s.Joints[0])
	}
}

// goTo is a trajectory that moves joints to a position, in steps of 100 ms.
func (r *rig) goTo(t *testing.T, id uint64, positions map[string][]float64) *trajectory.Trajectory {
	t.Helper()
	m := trajectory.Message{}
	var columns [][]float64
	for _, j := range r.taken {
		if p := positions[j.Name]; p != nil {
			m.JointNames = append(m.JointNames, j.Name)
			columns = append(columns, p)
		}
	}
	for k := range columns[0] {
		p := trajectory.Point{FromStart: time.Duration(k+1) * 100 * time.Millisecond}
		for c := range columns {
			p.Positions = append(p.Positions, columns[c][k])
		}
		m.Points = append(m.Points, p)
	}
	traj, err := trajectory.New(m, r.taken, trajectory.Options{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return traj
}

// both is a trajectory of both joints.
func (r *rig) both(t *testing.T, id uint64, positions ...float64) *trajectory.Trajectory {
	t.Helper()
	return r.goTo(t, id, map[string][]float64{"left": positions, "right": positions})
}

// moving reports whether the machine has power on a joint's motor now.
func (m *machine) moving(i int) bool { return m.told[i].Mode != motor.ModeStop }
