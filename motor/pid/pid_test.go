package pid

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const tick = 10 * time.Millisecond

func TestPositiveErrorGivesNegativeCommand(t *testing.T) {
	c := Default()
	c.PGain = 3
	if got := c.Step(new(State), 2, tick); got != -6 {
		t.Errorf("p 3, error 2: command %v, want -6", got)
	}
}

func TestMaximumAloneIsARangeFromZero(t *testing.T) {
	c := Default()
	c.PGain, c.CmdMax = 1, 5
	for err, want := range map[float64]float64{-9: 5, -4: 4, 4: 0} {
		if got := c.Step(new(State), err, tick); got != want {
			t.Errorf("cmd_max 5 alone, error %v: command %v, want %v", err, got, want)
		}
	}
}

func TestOverflowingDerivativeIsLeftOut(t *testing.T) {
	c := Default()
	c.PGain, c.DGain = 1, 1
	s := State{Error: -math.MaxFloat64, Command: 7}
	before := s
	if got := c.Step(&s, math.MaxFloat64, tick); got != 0 || s != before {
		t.Errorf("command %v and state %+v, want 0 and no change", got, s)
	}
	c.KeepOverflow = true
	if got := c.Step(&s, math.MaxFloat64, tick); !math.IsInf(got, -1) || !math.IsInf(s.Derivative, 1) {
		t.Errorf("as before gz-math 6.14: command %v, derivative %v, want -Inf, +Inf", got, s.Derivative)
	}
}

func TestCommandOfAStepThatIsLeftOutStays(t *testing.T) {
	c := Default()
	c.PGain = 1
	var s State
	c.Step(&s, 2, tick)
	if got := c.Step(&s, math.NaN(), tick); got != 0 || s.Command != -2 {
		t.Errorf("returned %v, stored %v; want 0, -2", got, s.Command)
	}
}

func TestSettledControllerDoesNotKick(t *testing.T) {
	c := Default()
	c.DGain = 1
	var s State
	if got := c.Step(&s, 1, time.Millisecond); got != -1000 {
		t.Errorf("Gazebo's first step gives %v, want -1000", got)
	}
	s = State{}
	s.Settle(1)
	if got := c.Step(&s, 1, time.Millisecond); got != 0 {
		t.Errorf("after Settle the first step gives %v, want 0", got)
	}
}

// stall pushes against a limit for a while and returns the integral and how long the command then takes to
// turn around.
func stall(c *Config, cut float64, unwind bool) (integral float64, steps int) {
	var s State
	for range 1000 {
		c.Step(&s, -1, tick)
		if unwind {
			s.Unwind(cut)
		}
	}
	integral = s.Integral
	for steps = 1; c.Step(&s, 1, tick) >= 0 && steps < 5000; steps++ {
		if unwind {
			s.Unwind(0)
		}
	}
	return integral, steps
}

func TestUnwindKeepsTheIntegralFromWindingUp(t *testing.T) {
	c := Default()
	c.PGain, c.IGain = 1, 10
	if wound, steps := stall(&c, 3, false); wound > -99 || steps < 900 {
		t.Errorf("without: integral %v, %d steps to turn around: Gazebo's would wind up", wound, steps)
	}
	if wound, steps := stall(&c, 3, true); wound != 0 || steps != 1 {
		t.Errorf("cut by the gate: integral %v, %d steps to turn around, want 0 and 1", wound, steps)
	}
	c.CmdMin, c.CmdMax = -2, 2
	if wound, steps := stall(&c, 0, true); wound < -1.1 || steps > 12 {
		t.Errorf("cut by its own limit: integral %v, %d steps to turn around, want about -1 and 11", wound, steps)
	}
}

func TestUnwindChangesNothingWhereNothingIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(-100, 100)
		c := Default()
		c.PGain, c.IGain, c.DGain = number.Draw(t, "p"), number.Draw(t, "i"), number.Draw(t, "d")
		var plain, unwound State
		for range 20 {
			err := number.Draw(t, "error")
			a, b := c.Step(&plain, err, tick), c.Step(&unwound, err, tick)
			unwound.Unwind(0)
			if a != b || plain != unwound {
				t.Fatalf("%v and %v", plain, unwound)
			}
		}
	})
}

func TestUnwindLetsTheIntegralComeBack(t *testing.T) {
	c := Default()
	c.IGain = 1
	s := State{Integral: -5}
	c.Step(&s, 1, tick) // takes from a command that is cut for being too large
	s.Unwind(3)
	if s.Integral != -4.99 {
		t.Errorf("integral %v, want -4.99", s.Integral)
	}
}

func TestCommandStaysWithinItsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			PGain: rapid.Float64().Draw(t, "p"), IGain: rapid.Float64().Draw(t, "i"), DGain: rapid.Float64().Draw(t, "d"),
			IMax: -1, CmdMin: -1, CmdMax: 2, CmdOffset: rapid.Float64().Draw(t, "offset"),
		}
		var s State
		for range 5 {
			dt := time.Duration(rapid.Int64().Draw(t, "dt"))
			if got := c.Step(&s, rapid.Float64().Draw(t, "error"), dt); got < -1 || got > 2 {
				t.Fatalf("command %v is outside [-1, 2]", got)
			}
		}
	})
}

func BenchmarkStep(b *testing.B) {
	c := Config{PGain: 20, IGain: 0.4, DGain: 1, IMin: -1, IMax: 1, CmdMin: -20, CmdMax: 20}
	var s State
	b.ReportAllocs()
	err := -1.0
	for b.Loop() {
		err = -err
		c.Step(&s, err, tick)
	}
}
