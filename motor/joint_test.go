package motor

import (
	"math"
	"testing"
)

func TestTransmissionHasGearLeadAndSign(t *testing.T) {
	j := NewJoint("arm", 1)
	j.GearRatio, j.Reversed = 30, true
	if got := j.Transmission(); got != -30 {
		t.Errorf("reversed 30:1 gives %v", got)
	}
	j.Reversed, j.Prismatic, j.Lead, j.GearRatio = false, true, 0.01, 2
	if got, want := j.Transmission(), 2*2*math.Pi/0.01; math.Abs(got-want) > 1e-9 {
		t.Errorf("2:1 on a 10 mm screw gives %v rad/m, want %v", got, want)
	}
}

func TestGearLossesAreOnTheSideOfWhoeverDrives(t *testing.T) {
	j := NewJoint("arm", 1)
	j.GearRatio, j.Efficiency = 10, 0.8
	if got := j.MotorTorque(8, true); math.Abs(got-1) > 1e-12 {
		t.Errorf("driving 8 N·m takes %v N·m at the motor, want 1", got)
	}
	if got := j.MotorTorque(8, false); math.Abs(got-0.64) > 1e-12 {
		t.Errorf("holding back 8 N·m takes %v N·m at the motor, want 0.64", got)
	}
	for _, driving := range []bool{true, false} {
		if got := j.JointEffort(j.MotorTorque(5, driving), driving); math.Abs(float64(got)-5) > 1e-12 {
			t.Errorf("driving %v: there and back gives %v, want 5", driving, got)
		}
	}
}

func TestModeIsReadByName(t *testing.T) {
	var m Mode
	if err := m.UnmarshalText([]byte("velocity")); err != nil || m != ModeVelocity {
		t.Errorf("velocity: %v, %v", m, err)
	}
	for _, bad := range []string{"stop", "", "torque"} {
		if err := m.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestSetsNameTheirMembers(t *testing.T) {
	if got := (FaultEStop | WarnOther).Names(); len(got) != 2 || got[0] != "estop" || got[1] != "other_warning" {
		t.Errorf("faults %v", got)
	}
	if WarnOther != 1<<(len(FaultNames())-1) || LimitTemperature != 1<<(len(LimitNames())-1) {
		t.Error("a fault or a bound has no name")
	}
	if Disabling&WarnOvertemperature != 0 || Disabling&FaultOther == 0 {
		t.Error("Disabling is not the faults without the warnings")
	}
}
