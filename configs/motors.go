package configs

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"hilgate/drivers"
	"hilgate/model/link"
	"hilgate/model/plant"
	"hilgate/motor"
)

// Group is one motor controller and the joints behind it.
type Group struct {
	Name   string    `yaml:"-"`
	Driver string    `yaml:"driver"`
	Bus    string    `yaml:"bus"`
	Params yaml.Node `yaml:"params"` // of the driver
	Joints Joints    `yaml:"joints"`

	Plants []plant.JointConfig `yaml:"-"` // what a simulator of each joint is made from
}

// Groups are the motor controllers of a file, in its order.
type Groups []Group

// UnmarshalYAML decodes the section.
func (g *Groups) UnmarshalYAML(n *yaml.Node) (err error) {
	*g, err = entries(n, func(name string) Group { return Group{Name: name} })
	return err
}

// Joints are the joints of a group, in the order of the file. A joint that is like another of its group
// begins as a copy of it, except for its channel and direction.
type Joints []motor.Joint

// jointEntry is a joint as the file has it.
type jointEntry struct {
	motor.Joint `yaml:",inline"`
	Like        string `yaml:"like"`
}

// UnmarshalYAML decodes the section.
func (j *Joints) UnmarshalYAML(n *yaml.Node) error {
	pairs, err := mapping(n)
	if err != nil {
		return err
	}
	d := jointDecoder{nodes: map[string]*yaml.Node{}, done: map[string]*motor.Joint{}}
	for _, p := range pairs {
		d.nodes[p.key] = p.value
	}
	for _, p := range pairs {
		*j = append(*j, *d.joint(p.key))
	}
	return flatten(d.errs)
}

// jointDecoder decodes each joint once, those that others are like before these.
type jointDecoder struct {
	nodes map[string]*yaml.Node
	done  map[string]*motor.Joint // nil while it is being decoded
	errs  []error
}

func (d *jointDecoder) joint(name string) *motor.Joint {
	if j, ok := d.done[name]; ok {
		return j
	}
	d.done[name] = nil
	node := d.nodes[name]
	entry := jointEntry{Joint: motor.NewJoint(name, 0)}
	var kin struct {
		Like yaml.Node `yaml:"like"`
	}
	// What is wrong with the joint itself comes to light below.
	if err := node.Load(&kin); err == nil && !kin.Like.IsZero() {
		switch _, known := d.nodes[kin.Like.Value]; {
		case !known:
			d.errs = append(d.errs, loadError(&kin.Like, fmt.Sprintf("%s: no joint of this controller has that name", kin.Like.Value)))
		default:
			model := d.joint(kin.Like.Value)
			if model == nil {
				d.errs = append(d.errs, loadError(&kin.Like, fmt.Sprintf("%s: joints that are like each other in a circle", kin.Like.Value)))
				break
			}
			entry.Joint = *model
			entry.Name, entry.Channel, entry.Reversed = name, 0, false
		}
	}
	d.errs = append(d.errs, node.Load(&entry, limits()))
	d.done[name] = &entry.Joint
	return &entry.Joint
}

func (c *checker) motors() {
	for i := range c.file.Motors {
		g := &c.file.Motors[i]
		at, before := "motors."+g.Name, len(c.faults)
		c.name(at, g.Name)
		c.device("motors", g.Name, g.Driver, g.Bus, &g.Params, func(k drivers.Kind) bool { return k == drivers.GroupOnSerial })
		if n := len(g.Joints); n == 0 || n > motor.MaxJoints {
			c.faultf(at+".joints", "%d joints: want 1 to %d", n, motor.MaxJoints)
		}
		channels := map[int]string{}
		for k := range g.Joints {
			j := &g.Joints[k]
			path := at + ".joints." + j.Name
			c.name(path, j.Name)
			if other, used := c.joints[j.Name]; used {
				c.faultf(path, "motors %s have a joint of this name: names are unique in the robot", other)
			}
			c.joints[j.Name] = g.Name
			c.joint(path, j)
			if other, used := channels[j.Channel]; used {
				c.faultf(path+".channel", "%d: joint %s is there", j.Channel, other)
			}
			channels[j.Channel] = j.Name
			c.collect(path, c.drivers.CheckJoint(g.Driver, j))
		}
		if spec, ok := c.drivers.Lookup(g.Driver); ok && len(c.faults) == before {
			// What is left is how parameters and joints go together, which the driver finds when it makes
			// the group. That touches no port.
			_, err := spec.OpenGroup(nowhere{}, &g.Params, g.Joints)
			c.collect(at, err)
		}
	}
}

// nowhere is a port that leads nowhere.
type nowhere struct{}

func (nowhere) Read([]byte) (int, error)  { return 0, link.Closed }
func (nowhere) Write([]byte) (int, error) { return 0, link.Closed }

// joint checks what physics wants of a joint, whatever the driver.
func (c *checker) joint(at string, j *motor.Joint) {
	if j.Channel == 0 && !c.has(at+".channel") {
		c.faultf(at+".channel", "missing: want the joint's place behind the controller")
		c.broken[at+".channel"] = true
	}
	c.positive(at+".gear_ratio", j.GearRatio)
	if j.Prismatic {
		c.positive(at+".lead", j.Lead)
	} else if c.has(at + ".lead") {
		c.faultf(at+".lead", "%v m: only a prismatic joint has a lead", j.Lead)
	}
	if !(j.Efficiency > 0 && j.Efficiency <= 1) {
		c.faultf(at+".efficiency", "%v: want above 0, up to 1", j.Efficiency)
	}
	c.notNegative(at+".torque_constant", j.TorqueConstant)
	c.notNegative(at+".winding_resistance", float64(j.WindingResistance))
	c.notNegative(at+".counts_per_revolution", j.CountsPerRevolution)
	c.notNegative(at+".max_velocity", float64(j.MaxVelocity))
	l, at := j.Limits, at+".limits"
	if l.Lower >= l.Upper {
		c.faultf(at+".lower", "%v: want below upper, %v", l.Lower, l.Upper)
	}
	for _, bound := range []struct {
		key   string
		value float64
	}{
		{"velocity", float64(l.Velocity)}, {"effort", float64(l.Effort)}, {"current", float64(l.Current)},
		{"tracking_error", float64(l.TrackingError)},
	} {
		if bound.value <= 0 {
			c.faultf(at+"."+bound.key, "%v: want above 0", bound.value)
		}
	}
	if t := l.Temperature; t < -40 || t > 200 {
		c.faultf(at+".temperature", "%v °C: want -40 to 200", t)
	}
}
