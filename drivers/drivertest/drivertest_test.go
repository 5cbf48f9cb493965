package drivertest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"hilgate/drivers"
	"hilgate/motor"
)

func fakeOptions(defect string) Options {
	o := Options{Params: "defect: " + defect}
	for i, name := range []string{"left", "right"} {
		j := motor.NewJoint(name, i+1)
		j.GearRatio, j.TorqueConstant, j.WindingResistance = 30, 0.021, 0.6
		o.Joints = append(o.Joints, j)
	}
	return o
}

func TestSoundPackPasses(t *testing.T) { Test(t, packSpec(), fakeOptions("none")) }

func TestSoundGroupPasses(t *testing.T) { Test(t, groupSpec(), fakeOptions("none")) }

// The suite is worth something only if it fails a driver that has a defect, at the place that names it.
func TestDefectsAreFound(t *testing.T) {
	for _, c := range []struct{ kind, defect, at string }{
		{"pack", "unchecked", "EveryFlippedByteGivesNoWrongValue"},
		{"pack", "kindless", "AbsentPackGivesAnErrorAndNoNumbers"},
		{"pack", "zero", "AbsentPackGivesAnErrorAndNoNumbers"},
		{"pack", "quiet", "AbsentPackGivesAnErrorAndNoNumbers"},
		{"pack", "slow", "HungBusGivesAnError"},
		{"pack", "sign", "ReadsWhatThePackHolds"},
		{"pack", "deaf", "ReadEndsWithItsContext"},
		{"group", "unchecked", "EveryFlippedByteIsHarmless"},
		{"group", "allocates", "ReadAndWriteAllocateNothing"},
		{"group", "early", "WriteBeforeArmMovesNothing"},
		{"group", "nan", "NoNumberIsNoMotion"},
		{"group", "runs on", "StopTakesThePowerAwayWheneverItIsCalled"},
		{"group", "keeps power", "ArmMayBeRepeatedAndLeavesTheMotorsWithoutPower"},
		{"group", "no failsafe", "SilentGatewayStopsTheMotors"},
	} {
		t.Run(c.kind+" "+c.defect, func(t *testing.T) {
			t.Parallel()
			run := exec.Command(os.Args[0], "-test.run", "^TestDefect$/^"+c.at+"$")
			run.Env = append(os.Environ(), "HIL_TEST_DEFECT="+c.kind+":"+c.defect)
			out, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestDefect/"+c.at) {
				t.Errorf("the suite passes it: %v\n%s", err, out)
			}
		})
	}
}

// TestDefect is what TestDefectsAreFound runs in a process of its own.
func TestDefect(t *testing.T) {
	kind, defect, ok := strings.Cut(os.Getenv("HIL_TEST_DEFECT"), ":")
	if !ok {
		t.Skip("is run by TestDefectsAreFound")
	}
	spec := map[string]func() drivers.Spec{"pack": packSpec, "group": groupSpec}[kind]
	Test(t, spec(), fakeOptions(defect))
}
