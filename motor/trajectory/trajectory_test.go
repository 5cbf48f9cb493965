package trajectory

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"hilgate/model/unit"
	"hilgate/motor"
)

const ms = time.Millisecond

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// arm is two joints, the first with bounds.
func arm() []Joint {
	left, right := motor.NewJoint("left", 1), motor.NewJoint("right", 2)
	left.Limits.Lower, left.Limits.Upper, left.Limits.Velocity, left.Limits.Effort = -3, 3, 10, 5
	return []Joint{{Name: "left", Limits: left.Limits, Position: 0.1}, {Name: "right", Limits: right.Limits, Position: unit.Unknown[unit.Position]()}}
}

// message is a sound trajectory of both joints.
func message() Message {
	return Message{
		JointNames: []string{"left", "right"},
		Points: []Point{
			{Positions: []float64{1, 10}, Velocities: []float64{0.5, 5}, FromStart: 100 * ms},
			{Positions: []float64{2, 20}, FromStart: 200 * ms},
			{Positions: []float64{3, 30}, Velocities: []float64{0, 0}, Effort: []float64{4, 40}, FromStart: 400 * ms},
		},
	}
}

func TestSoundTrajectoryIsAccepted(t *testing.T) {
	m := message()
	traj, err := New(m, arm(), Options{ID: 7, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	m.Points[0].Positions[0], m.JointNames[0] = 99, "changed" // it is a copy
	if traj.ID() != 7 || traj.Len() != 3 || traj.Duration() != 400*ms || !traj.Start().IsZero() {
		t.Errorf("ID %d, %d points, %v, start %v", traj.ID(), traj.Len(), traj.Duration(), traj.Start())
	}
	var targets [2]motor.Target
	var k Tracker
	k.Begin(traj, traj.Columns([]string{"left", "right"}))
	k.Step(0, targets[:])
	if targets[0].Position != 1 {
		t.Errorf("the target follows the message to %v", targets[0].Position)
	}
}

func TestFaultyTrajectoryIsRefusedWithItsReason(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Message)
		o      Options
		want   string
	}{
		"no names":       {func(m *Message) { m.JointNames = nil }, Options{}, "no joint names"},
		"too many names": {func(m *Message) { m.JointNames = make([]string, MaxNames+1) }, Options{}, "at most 256"},
		"no points":      {func(m *Message) { m.Points = nil }, Options{}, "no points"},
		"too many points": {func(m *Message) { m.Points = make([]Point, MaxPoints+1) }, Options{},
			"10001 points: at most 10000"},
		"unknown joint": {func(m *Message) { m.JointNames[1] = "ghost" }, Options{}, `joint_names[1]: no joint is named "ghost"`},
		"long name": {func(m *Message) { m.JointNames[1] = strings.Repeat("x", 1e6) }, Options{},
			strings.Repeat("x", 64) + "…"},
		"joint twice": {func(m *Message) { m.JointNames[1] = "left" }, Options{}, `joint_names[1]: "left" is named twice`},
		"short list": {func(m *Message) { m.Points[1].Positions = []float64{1} }, Options{},
			"points[1].positions: 1 numbers for 2 joints"},
		"long accelerations": {func(m *Message) { m.Points[1].Accelerations = make([]float64, 3) }, Options{},
			"points[1].accelerations: 3 numbers for 2 joints"},
		"no number": {func(m *Message) { m.Points[2].Effort[1] = math.NaN() }, Options{},
			"points[2].effort[1]: NaN is not a number"},
		"infinite":      {func(m *Message) { m.Points[2].Velocities[1] = math.Inf(-1) }, Options{}, "points[2].velocities[1]: -Inf"},
		"negative time": {func(m *Message) { m.Points[0].FromStart = -1 }, Options{}, "points[0]: time_from_start -1ns is negative"},
		"equal times": {func(m *Message) { m.Points[1].FromStart = 100 * ms }, Options{},
			"points[1]: time_from_start 100ms is not after 100ms"},
		"endless": {func(m *Message) { m.Points[2].FromStart = math.MaxInt64 }, Options{}, "is beyond 8784h0m0s"},
		"above position": {func(m *Message) { m.Points[1].Positions[0] = 3.5 }, Options{},
			`points[1].positions[0]: 3.5 is above 3, the limit of "left"`},
		"below position": {func(m *Message) { m.Points[1].Positions[0] = -3.5 }, Options{},
			`points[1].positions[0]: -3.5 is below -3, the limit of "left"`},
		"velocity": {func(m *Message) { m.Points[0].Velocities[0] = -11 }, Options{}, "-11 is below -10"},
		"effort":   {func(m *Message) { m.Points[2].Effort[0] = 6 }, Options{}, "6 is above 5"},
		"far from here": {func(m *Message) { m.Points[0].Positions[1] = 0 }, Options{StartTolerance: 0.5},
			`points[0].positions[0]: "left" is at 0.1, further from 1 than the start tolerance 0.5`},
		"here is unknown": {func(m *Message) { m.Points[0].Positions[0] = 0 }, Options{StartTolerance: 0.5},
			`points[0].positions[1]: "right" is at NaN`},
		"past": {func(m *Message) { m.Start = now.Add(-time.Second) }, Options{UseHeaderStart: true},
			"the trajectory ended 600ms before it arrived"},
		"far future": {func(m *Message) { m.Start = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, Options{UseHeaderStart: true},
			"header.stamp 9999-01-01T00:00:00Z is further than"},
	} {
		t.Run(name, func(t *testing.T) {
			m := message()
			c.change(&m)
			c.o.Now = now
			_, err := New(m, arm(), c.o)
			if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestRefusalListsAllFaultsUpToABound(t *testing.T) {
	m := Message{JointNames: []string{"left", "right"}}
	for range 40 {
		m.Points = append(m.Points, Point{Positions: []float64{9, math.NaN()}})
	}
	_, err := New(m, arm(), Options{})
	refusal := (*Refusal)(nil)
	if !errors.As(err, &refusal) || len(refusal.Faults) != maxFaults || refusal.Omitted != 39+80-maxFaults {
		t.Errorf("%d faults, %d omitted: %v", len(refusal.Faults), refusal.Omitted, err)
	}
}

func TestGazeboTakesWhatCanBeRun(t *testing.T) {
	m := message()
	m.JointNames[1] = "ghost"
	m.Points[0].Positions = []float64{9}
	m.Points[1].Velocities = []float64{1, 2, 3}
	m.Points[2].FromStart = 50 * ms
	traj, err := New(m, arm(), Options{Gazebo: true})
	if err != nil {
		t.Fatal(err)
	}
	var targets [2]motor.Target
	var k Tracker
	k.Begin(traj, traj.Columns([]string{"left", "right"}))
	for at := range 5 {
		k.Step(time.Duration(at)*60*ms, targets[:])
	}
	if k.Status() != StatusReached || targets[0].Position != 3 || targets[1].Position != 0 {
		t.Errorf("%v at %+v", k.Status(), targets)
	}
	if _, err := New(Message{JointNames: []string{"left"}}, nil, Options{Gazebo: true}); err == nil {
		t.Error("Gazebo's abort was not refused")
	}
}
