package loop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hilgate/model/unit"
	"hilgate/motor/pid"
)

// Element is one element inside the <plugin> of Gazebo's JointTrajectoryController.
type Element struct{ Name, Text string }

// ModelJoint is a joint of a model, with its type in SDF.
type ModelJoint struct{ Name, Type string }

// usable are the types of joints with the one axis that the controller needs.
var usable = []string{"revolute", "prismatic", "continuous", "gearbox"}

// FromSDF finds what Gazebo would control of a model, and how. Gazebo's rules, surprises included: the
// named joints, or all if none is named, without those that do not exist or are of no usable type, are
// kept in order; then the nth occurrence of a parameter belongs to the nth joint that was kept, so that an
// unknown name shifts all later ones. A joint that is named twice has the parameters of its later place.
// Elements that are no parameters of a joint are ignored, use_header_start_time among them, which in
// Gazebo has no effect. There is an error if a parameter is no number.
func FromSDF(elements []Element, model []ModelJoint) (joints []string, axes []Axis, err error) {
	values := map[string][]string{}
	for _, e := range elements {
		values[e.Name] = append(values[e.Name], strings.TrimSpace(e.Text))
	}
	for n, name := range kept(values["joint_name"], model) {
		axis, err := axisFromSDF(values, n)
		if err != nil {
			return nil, nil, fmt.Errorf("joint %s: %w", name, err)
		}
		if i := slices.Index(joints, name); i >= 0 {
			axes[i] = axis
			continue
		}
		joints, axes = append(joints, name), append(axes, axis)
	}
	return joints, axes, nil
}

func kept(named []string, model []ModelJoint) (names []string) {
	can := map[string]bool{}
	for _, j := range model {
		can[j.Name] = slices.Contains(usable, j.Type)
		if len(named) == 0 && can[j.Name] {
			names = append(names, j.Name)
		}
	}
	for _, name := range named {
		if can[name] {
			names = append(names, name)
		}
	}
	return names
}

// axisFromSDF takes the nth occurrence of each parameter.
func axisFromSDF(values map[string][]string, n int) (a Axis, err error) {
	a = Axis{Position: pid.Default(), Velocity: pid.Default()}
	initial := 0.0
	read := func(name string, v *float64) {
		if n >= len(values[name]) || err != nil {
			return
		}
		if *v, err = strconv.ParseFloat(values[name][n], 64); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	read("initial_position", &initial)
	a.Initial = unit.Position(initial)
	for prefix, c := range map[string]*pid.Config{"position_": &a.Position, "velocity_": &a.Velocity} {
		read(prefix+"p_gain", &c.PGain)
		read(prefix+"i_gain", &c.IGain)
		read(prefix+"d_gain", &c.DGain)
		read(prefix+"i_min", &c.IMin)
		read(prefix+"i_max", &c.IMax)
		read(prefix+"cmd_min", &c.CmdMin)
		read(prefix+"cmd_max", &c.CmdMax)
		read(prefix+"cmd_offset", &c.CmdOffset)
	}
	return a, err
}
