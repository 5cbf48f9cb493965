package wire

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hilgate/bms"
	"hilgate/model"
	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
)

var update = flag.Bool("update", false, "write the golden files anew")

// noon is the instant of every sample here.
func noon() time.Time { return time.Date(2024, 5, 17, 12, 0, 0, 123_000_000, time.UTC) }

// testPack is a 4S pack that discharges.
func testPack() bms.State {
	r := bms.Unmeasured()
	r.Present = true
	r.Voltage, r.Current, r.AverageCurrent, r.Temperature = 15.204, -2.517, -2.4, 31.85
	r.Capacity, r.DesignCapacity, r.SoC, r.SoH = 4.87, 5, 0.84, 0.97
	r.Cells = []unit.Volts{3.801, 3.799, 3.802, 3.802}
	r.Health, r.Cycles = bms.Good, 12
	return bms.State{
		Name: "main", Driver: "sbs", Quality: bms.Measured, At: noon(), Reading: r, Status: bms.Discharging,
		Draining: true, Rechargeable: true, Load: 38.27,
		Consumers: []bms.Consumer{{Name: "lidar", Power: 8.5}},
		Estimate: bms.Estimate{
			SoC: 0.85, SoCSigma: 0.012, CoulombSoC: 0.853, Charge: 4.1395, Capacity: 4.87,
			OpenCircuitVoltage: 15.4, Resistance: 0.08, Voltage: 15.199, Current: -2.517, Residual: 0.005,
			TimeToEmpty: 5920.6, TimeToFull: unit.Seconds(math.NaN()),
		},
		EnergyOut: 3600 * 3.1415, EnergyIn: 0, Feeds: []string{"left"},
	}
}

func testJoint(name string, at float64) motor.JointState {
	fb := motor.Unmeasured()
	fb.Position, fb.Velocity, fb.Effort = unit.Position(at), 0.25, 1.5
	return motor.JointState{Name: name, JointSample: motor.JointSample{Feedback: fb}}
}

func testSnapshot() *model.Snapshot {
	return &model.Snapshot{
		Robot: "rover", Seq: 7, At: noon(), Packs: []bms.State{testPack()}, Simulated: true,
		Groups: []motor.State{{
			Name: "base", Driver: "roboclaw", Connected: true, At: noon(),
			Identity:   motor.Identity{Model: "RoboClaw 2x15a", Failsafe: "serial timeout 0.2 s"},
			Joints:     []motor.JointState{testJoint("left", 0.1), testJoint("right", -0.2)},
			Trajectory: motor.Progress{ID: 3, Active: true, Ratio: 0.5, Changed: 2},
		}},
	}
}

// golden compares got, indented, with testdata/name.json.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var text bytes.Buffer
	if err := json.Indent(&text, got, "", "\t"); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, got)
	}
	text.WriteByte('\n')
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text.Bytes(), want) {
		t.Errorf("%s differs from its golden file:\n%s", name, text.Bytes())
	}
}

func TestPayloadsAreGolden(t *testing.T) {
	discharging, silent, pack18 := testPack(), testPack(), testPack()
	silent.Quality, silent.Reading, silent.Estimate.Residual = bms.Stale, bms.Unmeasured(), unit.Volts(math.NaN())
	silent.Status, silent.LastError = bms.StatusUnknown, "no acknowledgement"
	pack18.Reading.Cells = make([]unit.Volts, 18)
	for i := range pack18.Reading.Cells {
		pack18.Reading.Cells[i] = 3.5
	}
	pack18.Reading.Cells[17] = unit.Volts(math.NaN())

	stopped := testSnapshot()
	stopped.Safety = model.Safety{
		EStop: true, EStopID: 4, EStopReason: "operator: a \"wheel\" is loose", EStopSince: noon(), EStops: 4,
		Withheld: permit.EStop | permit.DeviceFault,
	}
	stopped.Groups[0].Joints[0].Withheld = permit.EStop
	stopped.Groups[0].Joints[1].Withheld = permit.EStop | permit.DeviceFault
	stopped.Groups[0].Joints[1].Feedback.Faults = motor.FaultOvertemperature | motor.WarnUndervoltage

	lost := testSnapshot()
	lost.Groups[0].Connected = false

	for name, got := range map[string][]byte{
		"battery_discharging": AppendBatteryState(nil, &discharging),
		"battery_silent":      AppendBatteryState(nil, &silent),
		"battery_18_cells":    AppendBatteryState(nil, &pack18),
		"battery_18_cells_s1": AppendSegment(nil, &pack18, 1),
		"estimate":            AppendEstimate(nil, &discharging, noon()),
		"joint_state":         AppendJointState(nil, stopped.Groups),
		"joint_state_lost":    AppendJointState(nil, lost.Groups),
		"joint_fault":         AppendJointFault(nil, &stopped.Groups[0].Joints[1]),
		"safety_normal":       AppendSafety(nil, testSnapshot()),
		"safety_estop":        AppendSafety(nil, stopped),
		"power_load":          AppendPowerLoad(nil, 8.5),
		"progress":            AppendProgress(nil, 1.0/3),
		"result":              AppendResult(nil, "t1", PathToleranceViolated, "stopped: estop", []float64{0.01, math.NaN()}),
		"ack":                 AppendAck(nil, &Ack{ID: "t1", Method: "joint_trajectory", Phase: Rejected, Code: 409, Message: "refused", Stamp: noon()}),
		"info": AppendInfo(nil, &Info{
			Version: "1.0.0", Revision: "abc", ConfigHash: "12", BootID: "b", Started: "2024-05-17T12:00:00Z",
			Backends: []Backend{{"main", "sbs", "sim"}},
		}, testSnapshot(), []string{"model/rover/joint_state"}, []string{"model/rover/req/+"}),
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, got) })
	}
}
