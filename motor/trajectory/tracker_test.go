package trajectory

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hilgate/model/unit"
	"hilgate/motor"
)

// follow begins a trajectory of left and right.
func follow(t *testing.T, m Message, o Options) *Tracker {
	t.Helper()
	traj, err := New(m, arm(), o)
	if err != nil {
		t.Fatal(err)
	}
	k := new(Tracker)
	k.Begin(traj, traj.Columns([]string{"left", "right"}))
	return k
}

// row is what a step at an instant shall give for the left joint.
type row struct {
	At       time.Duration
	Target   motor.Target
	Changed  bool
	Progress float32
	Status   string
}

func check(t *testing.T, k *Tracker, targets []motor.Target, want []row) {
	t.Helper()
	for _, w := range want {
		got := row{At: w.At, Changed: k.Step(w.At, targets)}
		got.Target, got.Progress, got.Status = targets[0], k.Progress(), k.Status().String()
		if diff := cmp.Diff(w, got); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", w.At, diff)
		}
	}
}

func TestTargetIsTheNextWaypoint(t *testing.T) {
	k := follow(t, message(), Options{})
	check(t, k, []motor.Target{{Effort: 7}, {}}, []row{
		{1000 * ms, motor.Target{Position: 1, Velocity: 0.5, Effort: 7}, true, 1. / 3, "active"},
		{1100 * ms, motor.Target{Position: 1, Velocity: 0.5, Effort: 7}, false, 1. / 3, "active"}, // not yet passed
		{1101 * ms, motor.Target{Position: 2, Velocity: 0.5, Effort: 7}, true, 2. / 3, "active"},  // what a point lacks is kept
		{1200 * ms, motor.Target{Position: 2, Velocity: 0.5, Effort: 7}, false, 2. / 3, "active"},
		{1201 * ms, motor.Target{Position: 3, Effort: 4}, true, 1, "reached"},
		{9000 * ms, motor.Target{Position: 3, Effort: 4}, false, 1, "reached"},
	})
}

func TestPointsPassedInOneStepAreLeftOut(t *testing.T) {
	k := follow(t, message(), Options{})
	targets := make([]motor.Target, 2)
	check(t, k, targets, []row{
		{0, motor.Target{Position: 1, Velocity: 0.5}, true, 1. / 3, "active"},
		{250 * ms, motor.Target{Position: 3, Effort: 4}, true, 1, "reached"},
	})
}

func TestInterpolatedTargetMovesInAStraightLine(t *testing.T) {
	k := follow(t, message(), Options{Interpolate: true})
	check(t, k, []motor.Target{{Effort: 7}, {}}, []row{
		{1000 * ms, motor.Target{Effort: 7}, false, 0, "active"},
		{1050 * ms, motor.Target{Position: 0.5, Velocity: 0.25, Effort: 7}, false, 0, "active"},
		{1100 * ms, motor.Target{Position: 1, Velocity: 0.5, Effort: 7}, true, 1. / 3, "active"},
		{1150 * ms, motor.Target{Position: 1.5, Velocity: 0.5, Effort: 7}, false, 1. / 3, "active"},
		{1300 * ms, motor.Target{Position: 2.5, Velocity: 0.25, Effort: 5.5}, true, 2. / 3, "active"},
		{1400 * ms, motor.Target{Position: 3, Effort: 4}, true, 1, "reached"},
		{9000 * ms, motor.Target{Position: 3, Effort: 4}, false, 1, "reached"},
	})
}

func TestInterpolationFromAnUnknownPlaceBeginsAtTheWaypoint(t *testing.T) {
	k := follow(t, message(), Options{Interpolate: true})
	targets := []motor.Target{{Position: unit.Unknown[unit.Position]()}, {}}
	k.Step(0, targets)
	if targets[0].Position != 1 {
		t.Errorf("target %v, want 1", targets[0].Position)
	}
}

func TestHeaderStartIsWaitedForAndJoined(t *testing.T) {
	m := message()
	m.Start = now.Add(time.Second)
	traj, err := New(m, arm(), Options{UseHeaderStart: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if !traj.Start().Equal(m.Start) {
		t.Errorf("start %v, want %v", traj.Start(), m.Start)
	}
	columns := traj.Columns([]string{"left", "right"})
	var k Tracker
	k.BeginAt(traj, columns, 500*ms)
	check(t, &k, []motor.Target{{Position: 7}, {}}, []row{
		{499 * ms, motor.Target{Position: 7}, false, 0, "new"},
		{500 * ms, motor.Target{Position: 1, Velocity: 0.5}, true, 1. / 3, "active"},
		{601 * ms, motor.Target{Position: 2, Velocity: 0.5}, true, 2. / 3, "active"},
	})
	k.BeginAt(traj, columns, -150*ms) // it has begun already
	check(t, &k, []motor.Target{{Position: 7}, {}}, []row{
		{0, motor.Target{Position: 2}, true, 2. / 3, "active"},
	})
}

func TestDroppedTrajectoryLeavesTheTargets(t *testing.T) {
	k := follow(t, message(), Options{})
	targets := make([]motor.Target, 2)
	k.Step(0, targets)
	k.Drop()
	check(t, k, targets, []row{{time.Second, motor.Target{Position: 1, Velocity: 0.5}, false, 0, "reached"}})
}

// random is any trajectory of left and right that New may be asked to judge.
func random(t *rapid.T) Message {
	m := Message{JointNames: rapid.SliceOfN(rapid.SampledFrom([]string{"left", "right", "ghost"}), 1, 3).Draw(t, "names")}
	number := rapid.OneOf(rapid.Float64Range(-4, 4), rapid.Float64())
	list := rapid.SliceOfN(number, 0, 3)
	for range rapid.IntRange(1, 6).Draw(t, "points") {
		m.Points = append(m.Points, Point{
			Positions: list.Draw(t, "positions"), Velocities: list.Draw(t, "velocities"), Effort: list.Draw(t, "effort"),
			FromStart: time.Duration(rapid.Int64Range(-1e9, 10e9).Draw(t, "time")),
		})
	}
	return m
}

func TestWhateverIsAcceptedCanBeRunToItsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := random(t)
		o := Options{Gazebo: rapid.Bool().Draw(t, "gazebo"), Interpolate: rapid.Bool().Draw(t, "interpolate")}
		traj, err := New(m, arm(), o)
		if err != nil {
			return
		}
		var k Tracker
		targets := make([]motor.Target, 2)
		k.Begin(traj, traj.Columns([]string{"left", "right"}))
		progress := float32(0)
		for at := time.Duration(0); at < 11*time.Second; at += time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "step")) {
			changed := k.Step(at, targets)
			if p := k.Progress(); p < progress || p > 1 || (changed != (p != progress)) {
				t.Fatalf("at %v progress goes from %v to %v, changed %v", at, progress, p, changed)
			}
			progress = k.Progress()
		}
		k.Step(12*time.Second, targets)
		if k.Status() != StatusReached || k.Progress() != 1 {
			t.Fatalf("it ends %v with %v", k.Status(), k.Progress())
		}
	})
}

func TestTargetsOfWhatIsAcceptedAreWithinTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inside := rapid.Float64Range(-3, 3)
		m := Message{JointNames: []string{"left"}}
		for i := range rapid.IntRange(1, 6).Draw(t, "points") {
			m.Points = append(m.Points, Point{
				Positions: []float64{inside.Draw(t, "position")}, Velocities: []float64{inside.Draw(t, "velocity")},
				FromStart: time.Duration(i) * 100 * ms,
			})
		}
		traj, err := New(m, arm(), Options{Interpolate: rapid.Bool().Draw(t, "interpolate")})
		if err != nil {
			t.Fatal(err)
		}
		var k Tracker
		targets := make([]motor.Target, 2)
		k.Begin(traj, traj.Columns([]string{"left", "right"}))
		for at := time.Duration(0); at < time.Second; at += 7 * ms {
			k.Step(at, targets)
			if p, v := float64(targets[0].Position), float64(targets[0].Velocity); !(math.Abs(p) <= 3 && math.Abs(v) <= 3) {
				t.Fatalf("at %v the target is %v, %v", at, p, v)
			}
		}
	})
}

// long is a trajectory of n points, a millisecond apart.
func long(n int) *Trajectory {
	m := Message{JointNames: []string{"left", "right"}}
	for i := range n {
		m.Points = append(m.Points, Point{Positions: []float64{1, 2}, FromStart: time.Duration(i) * ms})
	}
	traj, err := New(m, arm(), Options{})
	if err != nil {
		panic(err)
	}
	return traj
}

func TestStepDoesNotAllocate(t *testing.T) {
	traj, at := long(MaxPoints), time.Duration(0)
	var k Tracker
	targets := make([]motor.Target, 2)
	k.Begin(traj, traj.Columns([]string{"left", "right"}))
	if n := testing.AllocsPerRun(1000, func() { at += ms; k.Step(at, targets) }); n != 0 {
		t.Errorf("Step allocates %v times", n)
	}
}

func BenchmarkStep(b *testing.B) {
	for name, n := range map[string]int{"10 points": 10, "10000 points": MaxPoints} {
		b.Run(name, func(b *testing.B) {
			traj, at := long(n), time.Duration(0)
			columns := traj.Columns([]string{"left", "right"})
			targets := make([]motor.Target, 2)
			var k Tracker
			b.ReportAllocs()
			for b.Loop() {
				if k.Status() == StatusReached {
					k.BeginAt(traj, columns, at)
				}
				at += ms
				k.Step(at, targets)
			}
		})
	}
}
