package configs

import (
	"math"
	"time"

	"go.yaml.in/yaml/v4"

	"hilgate/model/unit"
	"hilgate/motor/pid"
)

// Controller is a joint-trajectory controller: Gazebo's, with its element names as keys. A key that Gazebo
// repeats, once a joint, is a list here, in the order of Joints; what a list lacks at its end has its
// default.
type Controller struct {
	Name   string   `yaml:"-"`
	Joints []string `yaml:"joints"` // Gazebo's joint_name
	Rate   float64  `yaml:"rate"`   // Hz

	UseHeaderStartTime bool `yaml:"use_header_start_time"` // a trajectory begins at its header's stamp
	Interpolate        bool `yaml:"interpolate"`           // between waypoints; else the target steps, as in Gazebo

	// StartTolerance is how far the first waypoint may be from where a joint stands, rad or m. 0 is any
	// distance.
	StartTolerance unit.Position `yaml:"start_tolerance"`

	// CommandTimeout is the age of a trajectory at which the joints stop. 0 is any age.
	CommandTimeout time.Duration `yaml:"command_timeout"`

	// Gazebo gives what Gazebo gives, to the last bit: the joints are driven to InitialPosition from the
	// start, unknown joints of a trajectory are skipped, the integral winds up at a limit.
	Gazebo bool `yaml:"gazebo"`

	InitialPosition []unit.Position `yaml:"initial_position"`

	PositionPGain     []float64 `yaml:"position_p_gain"`
	PositionIGain     []float64 `yaml:"position_i_gain"`
	PositionDGain     []float64 `yaml:"position_d_gain"`
	PositionIMin      []float64 `yaml:"position_i_min"`
	PositionIMax      []float64 `yaml:"position_i_max"`
	PositionCmdMin    []float64 `yaml:"position_cmd_min"`
	PositionCmdMax    []float64 `yaml:"position_cmd_max"`
	PositionCmdOffset []float64 `yaml:"position_cmd_offset"`

	VelocityPGain     []float64 `yaml:"velocity_p_gain"`
	VelocityIGain     []float64 `yaml:"velocity_i_gain"`
	VelocityDGain     []float64 `yaml:"velocity_d_gain"`
	VelocityIMin      []float64 `yaml:"velocity_i_min"`
	VelocityIMax      []float64 `yaml:"velocity_i_max"`
	VelocityCmdMin    []float64 `yaml:"velocity_cmd_min"`
	VelocityCmdMax    []float64 `yaml:"velocity_cmd_max"`
	VelocityCmdOffset []float64 `yaml:"velocity_cmd_offset"`
}

// DefaultRate of a control loop, Hz.
const DefaultRate = 100

// Bounds of a controller. Beyond 1 kHz no serial controller of these drivers answers.
const (
	minRate, maxRate  = 1, 1000
	maxStartTolerance = 100 // rad or m
	maxCommandTimeout = time.Hour
	mostOfBaud        = 0.8 // of a port that a control loop may fill
	bitsPerByte       = 10  // 8N1: start, eight, stop
	cyclesToStale     = 2   // at least, between two commands
)

// Controllers are the controllers of a file, in its order.
type Controllers []Controller

// UnmarshalYAML decodes the section.
func (c *Controllers) UnmarshalYAML(n *yaml.Node) (err error) {
	*c, err = entries(n, func(name string) Controller { return Controller{Name: name, Rate: DefaultRate} })
	return err
}

// Period is the time of one cycle.
func (c *Controller) Period() time.Duration {
	return time.Duration(float64(time.Second) / c.Rate)
}

// Initial is the initial position of joint i.
func (c *Controller) Initial(i int) unit.Position { return nth(c.InitialPosition, i, 0) }

// Position is the PID of joint i's position.
func (c *Controller) Position(i int) pid.Config {
	return gains(i, c.PositionPGain, c.PositionIGain, c.PositionDGain, c.PositionIMin, c.PositionIMax,
		c.PositionCmdMin, c.PositionCmdMax, c.PositionCmdOffset)
}

// Velocity is the PID of joint i's velocity.
func (c *Controller) Velocity(i int) pid.Config {
	return gains(i, c.VelocityPGain, c.VelocityIGain, c.VelocityDGain, c.VelocityIMin, c.VelocityIMax,
		c.VelocityCmdMin, c.VelocityCmdMax, c.VelocityCmdOffset)
}

func gains(i int, p, integral, d, iMin, iMax, cmdMin, cmdMax, offset []float64) pid.Config {
	g := pid.Default()
	g.PGain, g.IGain, g.DGain = nth(p, i, g.PGain), nth(integral, i, g.IGain), nth(d, i, g.DGain)
	g.IMin, g.IMax = nth(iMin, i, g.IMin), nth(iMax, i, g.IMax)
	g.CmdMin, g.CmdMax = nth(cmdMin, i, g.CmdMin), nth(cmdMax, i, g.CmdMax)
	g.CmdOffset = nth(offset, i, g.CmdOffset)
	return g
}

// nth is element i, or the default where the list has none.
func nth[T any](list []T, i int, byDefault T) T {
	if i < len(list) {
		return list[i]
	}
	return byDefault
}

func (c *checker) controllers() {
	owner := map[string]string{} // by joint
	buses := map[string]string{} // by bus: the controller that runs it
	for i := range c.file.Controllers {
		k := &c.file.Controllers[i]
		at := "controllers." + k.Name
		c.name(at, k.Name)
		if !(k.Rate >= minRate && k.Rate <= maxRate) {
			c.faultf(at+".rate", "%v Hz: want %v to %v", k.Rate, minRate, maxRate)
		}
		if !(k.StartTolerance >= 0 && k.StartTolerance <= maxStartTolerance) {
			c.faultf(at+".start_tolerance", "%v: want 0 to %v, where 0 is any", k.StartTolerance, maxStartTolerance)
		}
		if k.CommandTimeout != 0 {
			c.within(at+".command_timeout", k.CommandTimeout, cyclesToStale*k.Period(), maxCommandTimeout)
		}
		if len(k.Joints) == 0 {
			c.faultf(at+".joints", "missing: want the joints that it moves")
		}
		for n, joint := range k.Joints {
			path := index(at+".joints", n)
			motors, known := c.joints[joint]
			if !known {
				c.faultf(path, "%s: no joint has that name", joint)
				continue
			}
			if other, taken := owner[joint]; taken {
				c.faultf(path, "%s: controller %s moves it already", joint, other)
				continue
			}
			owner[joint] = k.Name
			bus := c.file.Group(motors).Bus
			if other, taken := buses[bus]; taken && other != k.Name {
				c.faultf(path, "%s: controller %s runs bus %s already: want one controller a bus", joint, other, bus)
			}
			buses[bus] = k.Name
		}
		c.atMostOneAJoint(at+".initial_position", len(k.InitialPosition), k)
		for i, x := range k.InitialPosition {
			c.finite(index(at+".initial_position", i), float64(x))
		}
		for _, g := range k.gainLists() {
			c.atMostOneAJoint(at+"."+g.key, len(g.list), k)
			for i, x := range g.list {
				if !g.unbounded || math.IsNaN(x) {
					c.finite(index(at+"."+g.key, i), x)
				}
			}
		}
	}
	for i := range c.file.Motors {
		c.bandwidth(&c.file.Motors[i])
	}
}

func (c *checker) atMostOneAJoint(path string, n int, k *Controller) {
	if n > len(k.Joints) {
		c.faultf(path, "%d elements: want at most one a joint, %d", n, len(k.Joints))
	}
}

// gainList is a list by joint, and whether infinity means something in it: no bound.
type gainList struct {
	key       string
	list      []float64
	unbounded bool
}

func (c *Controller) gainLists() []gainList {
	return []gainList{
		{"position_p_gain", c.PositionPGain, false}, {"position_i_gain", c.PositionIGain, false},
		{"position_d_gain", c.PositionDGain, false}, {"position_i_min", c.PositionIMin, true},
		{"position_i_max", c.PositionIMax, true}, {"position_cmd_min", c.PositionCmdMin, true},
		{"position_cmd_max", c.PositionCmdMax, true}, {"position_cmd_offset", c.PositionCmdOffset, false},
		{"velocity_p_gain", c.VelocityPGain, false}, {"velocity_i_gain", c.VelocityIGain, false},
		{"velocity_d_gain", c.VelocityDGain, false}, {"velocity_i_min", c.VelocityIMin, true},
		{"velocity_i_max", c.VelocityIMax, true}, {"velocity_cmd_min", c.VelocityCmdMin, true},
		{"velocity_cmd_max", c.VelocityCmdMax, true}, {"velocity_cmd_offset", c.VelocityCmdOffset, false},
	}
}

// bandwidth refuses a loop whose bytes do not fit on its port.
func (c *checker) bandwidth(g *Group) {
	bus := c.file.Bus(g.Bus)
	if bus == nil || c.drivers.Check(g.Driver, &g.Params) != nil {
		return
	}
	at, rate := "motors."+g.Name, float64(DefaultRate)
	if k := c.file.ControllerOf(g); k != nil {
		at, rate = "controllers."+k.Name+".rate", k.Rate
	}
	need := rate * bitsPerByte * float64(c.drivers.CycleBytes(g.Driver, &g.Params, g.Joints))
	if may := mostOfBaud * float64(bus.Baud); need > may {
		c.faultf(at, "%v Hz needs %.0f bit/s on bus %s, which may carry %.0f: %v %% of %d baud",
			rate, need, bus.Name, may, 100*mostOfBaud, bus.Baud)
	}
}

// ControllerOf is the controller that moves joints of a group; nil if none does.
func (f *File) ControllerOf(g *Group) *Controller {
	for i := range f.Controllers {
		k := &f.Controllers[i]
		for j := range g.Joints {
			if k.Index(g.Joints[j].Name) >= 0 {
				return k
			}
		}
	}
	return nil
}

// Index is the place of a joint in Joints, and so in every list; -1 if the controller does not move it.
func (c *Controller) Index(joint string) int {
	for i, name := range c.Joints {
		if name == joint {
			return i
		}
	}
	return -1
}
