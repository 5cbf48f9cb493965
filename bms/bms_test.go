package bms

import (
	"math"
	"reflect"
	"testing"
)

func TestAnUnmeasuredReadingHasNoNumber(t *testing.T) {
	v := reflect.ValueOf(Unmeasured())
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Float64 && !math.IsNaN(f.Float()) {
			t.Errorf("%s = %v, want NaN", v.Type().Field(i).Name, f.Float())
		}
	}
}

func TestStatusNumbersAreThoseOfROS(t *testing.T) {
	for s, want := range map[Status]string{0: "unknown", 1: "charging", 2: "discharging", 3: "not_charging", 4: "full", 9: "unknown"} {
		if s.String() != want {
			t.Errorf("status %d is %q, want %q", s, s, want)
		}
	}
	if Ternary != 7 || Ternary.String() != "ternary" || SafetyTimerExpire != 8 {
		t.Error("health or technology numbers differ from ROS")
	}
}

func TestFaultsNameTheirMembers(t *testing.T) {
	if got := (CellOvervoltage | InternalFault).Names(); len(got) != 2 || got[1] != "internal_fault" {
		t.Errorf("faults %v", got)
	}
	if InternalFault != 1<<(len(FaultNames())-1) {
		t.Error("a fault has no name")
	}
}
