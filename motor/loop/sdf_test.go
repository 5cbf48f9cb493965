package loop

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hilgate/motor/pid"
)

func TestFromSDFMatchesRepeatedParametersAsGazeboDoes(t *testing.T) {
	model := []ModelJoint{
		{"base", "fixed"}, {"a", "revolute"}, {"b", "prismatic"}, {"ball", "ball"}, {"c", "continuous"}, {"d", "gearbox"},
	}
	named := func(joints, gains string) (elements []Element) {
		for _, n := range strings.Fields(joints) {
			elements = append(elements, Element{"joint_name", " " + n + "\n"})
		}
		for _, g := range strings.Fields(gains) {
			elements = append(elements, Element{"position_p_gain", g})
		}
		return elements
	}
	for name, c := range map[string]struct {
		elements []Element
		joints   string
		gains    []float64
	}{
		"all usable joints":                 {named("", "1 2 3"), "a b c d", []float64{1, 2, 3, 0}},
		"in the order of the file":          {named("c a", "1 2"), "c a", []float64{1, 2}},
		"unknown and unusable joints shift": {named("ghost c base a", "1 2 3"), "c a", []float64{1, 2}},
		"twice has the later parameters":    {named("a b a", "1 2 3"), "a b", []float64{3, 2}},
		"twice without later parameters":    {named("a b a", "1 2"), "a b", []float64{0, 2}},
		"none of them":                      {named("ghost", "1"), "", nil},
		"others are ignored":                {append(named("a", "1"), Element{"use_header_start_time", "true"}), "a", []float64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			joints, axes, err := FromSDF(c.elements, model)
			if err != nil {
				t.Fatal(err)
			}
			var gains []float64
			for _, a := range axes {
				gains = append(gains, a.Position.PGain)
			}
			if diff := cmp.Diff(c.joints, strings.Join(joints, " ")) + cmp.Diff(c.gains, gains); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromSDFReadsEveryParameter(t *testing.T) {
	var elements []Element
	for i, name := range []string{"p_gain", "i_gain", "d_gain", "i_min", "i_max", "cmd_min", "cmd_max", "cmd_offset"} {
		elements = append(elements,
			Element{"position_" + name, string(rune('1' + i))}, Element{"velocity_" + name, "-" + string(rune('1'+i))})
	}
	elements = append(elements, Element{"initial_position", "0.5"})
	_, axes, err := FromSDF(elements, []ModelJoint{{"a", "revolute"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Axis{{
		Position: pid.Config{PGain: 1, IGain: 2, DGain: 3, IMin: 4, IMax: 5, CmdMin: 6, CmdMax: 7, CmdOffset: 8},
		Velocity: pid.Config{PGain: -1, IGain: -2, DGain: -3, IMin: -4, IMax: -5, CmdMin: -6, CmdMax: -7, CmdOffset: -8},
		Initial:  0.5,
	}}
	if diff := cmp.Diff(want, axes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFromSDFNamesTheParameterThatIsNoNumber(t *testing.T) {
	_, _, err := FromSDF([]Element{{"velocity_i_max", "lots"}}, []ModelJoint{{"a", "revolute"}})
	if err == nil || !strings.Contains(err.Error(), "joint a: velocity_i_max") {
		t.Errorf("error %v", err)
	}
}
