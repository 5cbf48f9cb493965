package roboclaw

import (
	"testing"

	"hilgate/drivers/drivertest"
	"hilgate/motor"
)

// testJoint is the joint of drivertest's plant: a small geared motor with an encoder of 512 lines.
func testJoint(name string, channel int, mode motor.Mode) motor.Joint {
	j := motor.NewJoint(name, channel)
	j.GearRatio, j.Efficiency = 30, 0.9
	j.TorqueConstant, j.WindingResistance = 0.021, 0.6
	j.CountsPerRevolution, j.MaxVelocity = 2048, 25
	j.Command = mode
	return j
}

func TestDriverConforms(t *testing.T) {
	reversed := testJoint("right", 2, motor.ModeEffort)
	reversed.Reversed = true
	for _, c := range []struct {
		name string
		o    drivertest.Options
	}{
		{"Effort", drivertest.Options{Joints: []motor.Joint{testJoint("left", 1, motor.ModeEffort), reversed}}},
		{"Velocity", drivertest.Options{Joints: []motor.Joint{
			testJoint("left", 1, motor.ModeVelocity), testJoint("right", 2, motor.ModeVelocity)}}},
		{"Position", drivertest.Options{Params: "acceleration: 20", Joints: []motor.Joint{
			testJoint("left", 1, motor.ModePosition), testJoint("right", 2, motor.ModePosition)}}},
		{"OneJoint", drivertest.Options{Joints: []motor.Joint{testJoint("arm", 2, motor.ModeEffort)}}},
		{"MixedModesInBulk", drivertest.Options{Params: "{acceleration: 50, feedback: bulk}", Joints: []motor.Joint{
			testJoint("left", 2, motor.ModeVelocity), testJoint("right", 1, motor.ModeEffort)}}},
		{"Encoders", drivertest.Options{Params: "feedback: encoders", Joints: []motor.Joint{
			testJoint("left", 1, motor.ModeVelocity), testJoint("right", 2, motor.ModeVelocity)}}},
	} {
		t.Run(c.name, func(t *testing.T) { drivertest.Test(t, Spec(), c.o) })
	}
}
