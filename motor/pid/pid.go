// Package pid is the PID controller of Gazebo (gz::math::PID), equal to it bit for bit.
//
//	error      = measured − target
//	rate       = (error − error of the step before) / dt
//	integral   = integral + i·dt·error            held within [i_min, i_max]
//	command    = cmd_offset − p·error − integral − d·rate    held within [cmd_min, cmd_max]
//
// A pair of limits is off where the minimum is above the maximum, as by default. Since each minimum is 0
// by default, a maximum alone makes a range that begins at 0; equal limits pin the value. The integral is
// in units of the command, so it keeps its effect when the gain changes.
//
// Gazebo's controller winds its integral up while the command is held back. Nothing here changes that
// unless whoever uses the command calls Unwind.
package pid

import (
	"math"
	"time"
)

// Config is what a controller is made of. The tags are Gazebo's names without the "position_" or
// "velocity_" in front.
type Config struct {
	PGain float64 `yaml:"p_gain"` // command per unit of error
	IGain float64 `yaml:"i_gain"` // command per unit of error and second
	DGain float64 `yaml:"d_gain"` // command per unit of error a second

	IMin float64 `yaml:"i_min"` // of the integral, in units of the command
	IMax float64 `yaml:"i_max"`

	CmdMin    float64 `yaml:"cmd_min"`
	CmdMax    float64 `yaml:"cmd_max"`
	CmdOffset float64 `yaml:"cmd_offset"` // added before the limits

	// KeepOverflow lets a derivative that is not finite through, into the state and into the command, as
	// gz-math before 6.14 and 7.2 does. Later versions, and this one by default, leave such a step out.
	KeepOverflow bool `yaml:"-"`
}

// Default is Gazebo's default: all gains 0, all limits off.
func Default() Config { return Config{IMax: -1, CmdMax: -1} }

// State is what a controller remembers between steps. The zero State is that of a new one.
type State struct {
	Error      float64 // of the last step
	Integral   float64 // with its gain, in units of the command: it is subtracted
	Derivative float64 // of the error, a second
	Command    float64 // the last one; a step that is left out does not change it

	before float64 // Integral before the last step
	cut    float64 // what the limits took from the last Command: before minus after
}

// Step advances the controller by dt and returns the command. err is measured minus target. A step with dt
// 0, or with an error or derivative that is not finite, changes nothing and returns 0. A negative dt runs
// the integral backwards, as in Gazebo.
func (c *Config) Step(s *State, err float64, dt time.Duration) float64 {
	return c.StepRate(s, err, (err-s.Error)/seconds(dt), dt)
}

// StepRate is Step with a derivative of the error that the caller knows, in its unit a second.
func (c *Config) StepRate(s *State, err, rate float64, dt time.Duration) float64 {
	s.before, s.cut = s.Integral, 0
	if dt == 0 || !finite(err) || (!finite(rate) && !c.KeepOverflow) {
		return 0
	}
	// The conversions keep Go from fusing a product with the sum around it, as it may on arm64.
	p := float64(c.PGain * err)
	integral := clamp(s.Integral+float64(float64(c.IGain*seconds(dt))*err), c.IMin, c.IMax)
	s.Error, s.Integral, s.Derivative = err, integral, rate
	cmd := c.CmdOffset - p - s.Integral - float64(c.DGain*rate)
	s.Command = clamp(cmd, c.CmdMin, c.CmdMax)
	s.cut = cmd - s.Command
	return s.Command
}

// Settle tells a new or reset controller where it begins, so that its first derivative is 0. Gazebo begins
// at an error of 0 and so kicks the joint by d·error/dt.
func (s *State) Settle(err float64) {
	if finite(err) {
		s.Error = err
	}
}

// Unwind is called after a step whose command was held back, by the controller's own limits or by cut
// further on (what was wanted minus what was applied; 0 if nothing was cut). It takes back what the step
// added to the integral if that was in the direction of the cut, so that the integral does not wind up
// against a limit, and still unwinds away from it.
func (s *State) Unwind(cut float64) {
	if s.cut != 0 {
		cut = s.cut
	}
	if (s.Integral-s.before)*cut < 0 { // the integral is subtracted
		s.Integral = s.before
	}
}

// seconds is dt as Gazebo has it: a division, which a multiplication by 1e-9 does not always equal.
func seconds(dt time.Duration) float64 { return float64(dt) / 1e9 }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// clamp holds v within [low, high] if low is not above high. NaN stays NaN.
func clamp(v, low, high float64) float64 {
	if high >= low {
		if high < v {
			v = high
		}
		if v < low {
			v = low
		}
	}
	return v
}
