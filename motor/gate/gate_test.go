package gate

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
)

// bounded is a joint with every bound but those of current and tracking error.
func bounded() motor.Joint {
	j := motor.NewJoint("arm", 1)
	j.Limits.Lower, j.Limits.Upper, j.Limits.Velocity, j.Limits.Effort, j.Limits.Temperature = -1, 1, 3, 5, 80
	return j
}

// at is the feedback of a sound joint.
func at(p unit.Position, v unit.Velocity) motor.Feedback {
	fb := motor.Unmeasured()
	fb.Position, fb.Velocity, fb.Temperature = p, v, 30
	return fb
}

func push(e unit.Effort) motor.Command   { return motor.Command{Mode: motor.ModeEffort, Effort: e} }
func turn(v unit.Velocity) motor.Command { return motor.Command{Mode: motor.ModeVelocity, Velocity: v} }
func move(p unit.Position, v unit.Velocity) motor.Command {
	return motor.Command{Mode: motor.ModePosition, Position: p, Velocity: v}
}

func TestCommandsAreHeldWithinTheBounds(t *testing.T) {
	for name, c := range map[string]struct {
		fb           motor.Feedback
		wanted, want motor.Command
		limits       motor.Limit
	}{
		"effort within":                       {at(0, 0), push(4), push(4), 0},
		"effort above":                        {at(0, 0), push(9), push(5), motor.LimitEffort},
		"effort below":                        {at(0, 0), push(-9), push(-5), motor.LimitEffort},
		"further out above":                   {at(1.1, 0), push(2), push(0), motor.LimitPosition},
		"further out below":                   {at(-1.1, 0), push(-2), push(0), motor.LimitPosition},
		"back in from above":                  {at(1.1, 0), push(-2), push(-2), 0},
		"back in from below":                  {at(-1.1, 0), push(2), push(2), 0},
		"faster still":                        {at(0, 3.1), push(2), push(0), motor.LimitVelocity},
		"slower":                              {at(0, 3.1), push(-2), push(-2), 0},
		"faster still backwards":              {at(0, -3.1), push(-2), push(0), motor.LimitVelocity},
		"too much, too far, too fast":         {at(2, 4), push(9), push(0), motor.LimitEffort | motor.LimitPosition},
		"no effort":                           {at(0, 0), push(unit.Unknown[unit.Effort]()), stop, motor.LimitEffort},
		"velocity above":                      {at(0, 0), turn(7), turn(3), motor.LimitVelocity},
		"velocity further out":                {at(1.1, 0), turn(1), turn(0), motor.LimitPosition},
		"velocity back in":                    {at(1.1, 0), turn(-1), turn(-1), 0},
		"no velocity":                         {at(0, 0), turn(unit.Velocity(math.Inf(1))), stop, motor.LimitVelocity},
		"position above":                      {at(0, 0), move(2, 9), move(1, 3), motor.LimitPosition | motor.LimitVelocity},
		"position from outside":               {at(9, 0), move(0.5, 0), move(0.5, 0), 0},
		"no position":                         {at(0, 0), move(unit.Unknown[unit.Position](), 0), stop, motor.LimitPosition},
		"no velocity to the position":         {at(0, 0), move(0, unit.Unknown[unit.Velocity]()), stop, motor.LimitVelocity},
		"unknown position":                    {at(unit.Unknown[unit.Position](), 0), push(1), stop, motor.LimitPosition},
		"unknown velocity":                    {at(0, unit.Unknown[unit.Velocity]()), push(1), stop, motor.LimitVelocity},
		"velocity that the controller bounds": {at(0, unit.Unknown[unit.Velocity]()), turn(1), turn(1), 0},
		"stop":                                {at(0, 0), stop, stop, 0},
		"no mode":                             {at(0, 0), motor.Command{Mode: 9, Effort: 1}, stop, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j := bounded()
			got, limits := Apply(&j, new(State), &c.fb, motor.Target{}, c.wanted, 0)
			if got != c.want || limits != c.limits {
				t.Errorf("got %+v by %v, want %+v by %v", got, limits.Names(), c.want, c.limits.Names())
			}
		})
	}
}

func TestJointWithoutBoundsIsLeftAlone(t *testing.T) {
	j, fb := motor.NewJoint("wheel", 1), motor.Unmeasured()
	got, limits := Apply(&j, new(State), &fb, motor.Target{}, push(1e6), 0)
	if got != push(1e6) || limits != 0 {
		t.Errorf("got %+v by %v", got, limits.Names())
	}
}

func TestAnyReasonAndAnyDisablingFaultStops(t *testing.T) {
	j, fb := bounded(), at(0, 0)
	for i := range permit.Names() {
		if got, _ := Apply(&j, new(State), &fb, motor.Target{}, push(1), 1<<i); got != stop {
			t.Errorf("%v: %+v", permit.Reason(1<<i), got)
		}
	}
	for i, name := range motor.FaultNames() {
		fb.Faults = 1 << i
		want := push(1)
		if fb.Faults&motor.Disabling != 0 {
			want = stop
		}
		if got, _ := Apply(&j, new(State), &fb, motor.Target{}, push(1), 0); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestCurrentBoundsTheEffort(t *testing.T) {
	j := motor.NewJoint("arm", 1)
	j.GearRatio, j.Efficiency, j.TorqueConstant, j.Limits.Current = 10, 0.5, 0.1, 2
	for name, c := range map[string]struct {
		velocity unit.Velocity
		want     unit.Effort
	}{
		"driving":      {1, 1},  // 2 A · 0.1 N·m/A · 10 · 0.5
		"holding back": {-1, 4}, // 2 A · 0.1 N·m/A · 10 / 0.5
		"unknown":      {unit.Unknown[unit.Velocity](), 1},
	} {
		fb := at(0, c.velocity)
		got, limits := Apply(&j, new(State), &fb, motor.Target{}, push(9), 0)
		if diff := cmp.Diff(float64(c.want), float64(got.Effort)); diff != "" || limits != motor.LimitCurrent {
			t.Errorf("%s, by %v: %s", name, limits.Names(), diff)
		}
	}
}

func TestHotJointRunsAgainWhenItHasCooledDown(t *testing.T) {
	j, s := bounded(), new(State)
	for _, c := range []struct {
		temperature unit.Celsius
		withheld    permit.Reason
		want        motor.Mode
	}{
		{79, 0, motor.ModeEffort}, {80, 0, motor.ModeStop}, {78, 0, motor.ModeStop}, {75, 0, motor.ModeStop},
		{74, permit.DeviceFault, motor.ModeStop}, {76, 0, motor.ModeEffort}, {unit.Unknown[unit.Celsius](), 0, motor.ModeStop},
	} {
		fb := at(0, 0)
		fb.Temperature = c.temperature
		got, limits := Apply(&j, s, &fb, motor.Target{}, push(1), c.withheld)
		if got.Mode != c.want {
			t.Errorf("%v °C, withheld %v: %v by %v, want %v", c.temperature, c.withheld, got.Mode, limits.Names(), c.want)
		}
	}
}

func TestTrackingErrorStopsUntilRelease(t *testing.T) {
	j, s := motor.NewJoint("arm", 1), new(State)
	j.Limits.TrackingError = 0.5
	apply := func(p unit.Position, withheld permit.Reason) (motor.Mode, motor.Limit) {
		fb := at(p, 0)
		got, limits := Apply(&j, s, &fb, motor.Target{}, push(1), withheld)
		return got.Mode, limits
	}
	for _, step := range []struct {
		what     string
		position unit.Position
		withheld permit.Reason
		want     motor.Mode
		limits   motor.Limit
	}{
		{"on its way", 0.4, 0, motor.ModeEffort, 0},
		{"withheld, and so without a target", 2, permit.EStop, motor.ModeStop, 0},
		{"on its way again", -0.4, 0, motor.ModeEffort, 0},
		{"too far off", -0.6, 0, motor.ModeStop, motor.LimitTracking},
		{"back by itself", 0, 0, motor.ModeStop, motor.LimitTracking},
		{"not measured", unit.Unknown[unit.Position](), 0, motor.ModeStop, motor.LimitTracking},
	} {
		if mode, limits := apply(step.position, step.withheld); mode != step.want || limits != step.limits {
			t.Errorf("%s: %v by %v, want %v by %v", step.what, mode, limits.Names(), step.want, step.limits.Names())
		}
	}
	s.Release()
	if mode, _ := apply(0, 0); mode != motor.ModeEffort {
		t.Errorf("after Release: %v", mode)
	}
}

func TestApplyDoesNotAllocate(t *testing.T) {
	j, s, fb := bounded(), new(State), at(2, 4)
	if n := testing.AllocsPerRun(100, func() { Apply(&j, s, &fb, motor.Target{}, push(9), 0) }); n != 0 {
		t.Errorf("Apply allocates %v times", n)
	}
}

// FuzzOutputIsWithinTheBoundsOrAStop holds for whatever a joint tells and a control law wants.
func FuzzOutputIsWithinTheBoundsOrAStop(f *testing.F) {
	f.Add(uint8(1), 9.0, 0.0, 0.0, 1.2, 4.0, 30.0, 0.5, uint32(0), uint32(0))
	f.Add(uint8(2), 0.0, math.NaN(), 0.0, -1.2, math.Inf(1), 90.0, 0.0, uint32(0), uint32(1))
	f.Add(uint8(3), 0.0, 2.0, -7.0, 0.0, 0.0, math.NaN(), math.NaN(), uint32(2), uint32(0))
	f.Fuzz(func(t *testing.T, mode uint8, e, v, p, position, velocity, temperature, target float64, withheld, faults uint32) {
		j := bounded()
		j.TorqueConstant, j.Limits.Current, j.Limits.TrackingError = 0.1, 20, 2 // 2 N·m
		fb := motor.Feedback{
			Position: unit.Position(position), Velocity: unit.Velocity(velocity),
			Temperature: unit.Celsius(temperature), Faults: motor.Faults(faults),
		}
		wanted := motor.Command{
			Mode: motor.Mode(mode), Effort: unit.Effort(e), Velocity: unit.Velocity(v), Position: unit.Position(p),
		}
		got, limits := Apply(&j, new(State), &fb, motor.Target{Position: unit.Position(target)}, wanted, permit.Reason(withheld))
		if got == stop {
			return
		}
		sound := withheld == 0 && fb.Faults&motor.Disabling == 0 && unit.Finite(fb.Position) && temperature < 80 &&
			!(math.Abs(target-position) > 2) && got.Mode == wanted.Mode
		out := func(direction float64) bool {
			return direction > 0 && position > 1 || direction < 0 && position < -1
		}
		switch got.Mode {
		case motor.ModeEffort:
			sound = sound && math.Abs(float64(got.Effort)) <= 2 && !out(float64(got.Effort)) &&
				!(float64(got.Effort)*velocity > 0 && math.Abs(velocity) > 3) &&
				(limits != 0 || got.Effort == wanted.Effort) && got == push(got.Effort)
		case motor.ModeVelocity:
			sound = sound && math.Abs(float64(got.Velocity)) <= 3 && !out(float64(got.Velocity)) &&
				(limits != 0 || got.Velocity == wanted.Velocity) && got == turn(got.Velocity)
		case motor.ModePosition:
			sound = sound && math.Abs(float64(got.Velocity)) <= 3 && math.Abs(float64(got.Position)) <= 1 &&
				(limits != 0 || got.Position == wanted.Position) && got == move(got.Position, got.Velocity)
		default:
			sound = false
		}
		if !sound {
			t.Errorf("%+v from %+v, target %v, withheld %v: %+v by %v", wanted, fb, target, withheld, got, limits.Names())
		}
	})
}

func BenchmarkApply(b *testing.B) {
	j, s, fb := bounded(), new(State), at(0, 1)
	b.ReportAllocs()
	for b.Loop() {
		Apply(&j, s, &fb, motor.Target{}, push(4), 0)
	}
}
