package metrics

import (
	"errors"
	"fmt"
	"math"
	"time"

	"hilgate/bms"
	"hilgate/model"
	"hilgate/model/link"
	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
)

// robot is a gateway at work, as the page sees it: two packs on one SMBus, two wheels behind one
// controller, and an arm of four joints behind another.
type robot struct {
	config   Config
	snapshot *model.Snapshot
	mqtt     MQTTStats
}

// newRobot makes the robot at the instant at, with a past: every counter has moved.
func newRobot(at time.Time) *robot {
	r := &robot{snapshot: snapshotAt(at, 0), mqtt: mqttAfter(1)}
	gauge, drive, arm := new(link.Counters), new(link.Counters), new(link.Counters)
	r.config = Config{
		Version: "1.2.3", Revision: "0123456789ab",
		Latest: func() *model.Snapshot { return r.snapshot },
		MQTT:   func() MQTTStats { return r.mqtt },
		Packs: []Pack{
			{Name: "main", Low: 0.2, Critical: 0.05, StaleAfter: 6 * time.Second},
			{Name: "aux", Low: 0.2, Critical: 0.05, StaleAfter: 6 * time.Second},
		},
		Loops: []Loop{
			{Name: "base", Period: 10 * time.Millisecond, Realtime: func() Realtime {
				return Realtime{FIFO: true, Nanosleep: true}
			}},
			{Name: "arm", Period: 5 * time.Millisecond},
		},
		Buses: []Bus{
			{Name: "gauge", Device: "/dev/i2c-1", Driver: "sbs", Counters: gauge},
			{Name: "drive", Device: "/dev/ttyACM0", Driver: "roboclaw", Counters: drive},
			{Name: "arm", Device: "/dev/ttyUSB0", Driver: "dynamixel", Counters: arm},
		},
	}
	for _, c := range []*link.Counters{gauge, drive, arm} {
		c.Opened()
	}
	drive.Opened()
	gauge.Exchanged(1, 3, 0.5e-3)
	gauge.Failed(fmt.Errorf("read word 0x09: %w", link.PEC))
	gauge.Retried()
	drive.Exchanged(10, 12, 2e-3)
	drive.Failed(errors.New("unplugged"))
	return r
}

// work lets the histograms and the buses of the robot take one step.
func (r *robot) work(m *Metrics) {
	for i := range r.config.Buses {
		c := r.config.Buses[i].Counters
		c.Exchanged(5, 8, 0)
		m.Transaction(r.config.Buses[i].Name)(1.5e-3)
	}
	for i := range r.config.Loops {
		name := r.config.Loops[i].Name
		m.Wakeup(name)(90e-6)
		m.Stage(name, Read)(3e-3)
		m.Stage(name, Control)(2e-6)
		m.Stage(name, Write)(1e-3)
	}
}

func mqttAfter(steps uint64) MQTTStats {
	s := MQTTStats{
		Connected: true, Connects: 2, Losses: 1, Failures: 3, Dropped: 17,
		Published: []Count{{"state", 500 + 20*steps}, {"event", 4}, {"ack", 6}},
		Rejected: []Count{
			{"retained", 0}, {"malformed", 2}, {"too_large", 0}, {"unknown_method", 0}, {"expired", 0}, {"refused", 1}, {"busy", 0},
		},
	}
	for _, method := range []string{
		"unknown", "joint_trajectory", "estop_engage", "estop_release", "recharge_start", "recharge_stop", "drain_start",
		"drain_stop", "power_load",
	} {
		s.Commands = append(s.Commands, Count{method, steps})
	}
	return s
}

// snapshotAt is the robot at the instant at, so many steps on: wheels turn, the pack empties.
func snapshotAt(at time.Time, step uint64) *model.Snapshot {
	t := float64(step)
	s := &model.Snapshot{Robot: "rover", Seq: 4200 + step, At: at, Simulated: true}
	s.Safety = model.Safety{EStops: 1, Withheld: permit.CommandStale}

	main := bms.State{
		Name: "main", Driver: "sbs", Quality: bms.Measured, At: at.Add(-20 * time.Millisecond),
		Identity: bms.Identity{Manufacturer: "Acme", Device: "4S5000", Serial: "0x1234", Chemistry: bms.LiIon},
		Status:   bms.Discharging, Draining: true, Load: 37.5, Polls: 1000 + step, Failures: 7,
		Feeds: []string{"left", "right"}, EnergyOut: unit.Joules(1800 + 37*t), ChargeOut: unit.AmpereHours(0.5 + 0.001*t),
	}
	main.Rejected[bms.RejectJump] = 1
	main.Reading = bms.Unmeasured()
	r := &main.Reading
	r.Present, r.Status, r.Health, r.Cycles = true, bms.Discharging, bms.Good, 42
	r.Voltage, r.Current, r.Temperature = unit.Volts(15.25-0.01*t), -2.5, 28.5
	r.Charge, r.Capacity, r.DesignCapacity = 3, 4.8, 5
	r.SoC, r.SoH = 0.625, 0.96
	r.Cells = []unit.Volts{3.8, 3.8125, 3.8125, 3.825}
	r.CellTemperatures = []unit.Celsius{28.25, 28.75}
	r.Faults = bms.CellImbalance
	main.Estimate = bms.Estimate{
		SoC: unit.Ratio(0.628 - 0.001*t), SoCSigma: 0.015, CoulombSoC: 0.632, Charge: 3.02, Capacity: 4.8,
		OpenCircuitVoltage: 15.4375, Resistance: 0.08, Voltage: 15.2375, Current: -2.5, Residual: 0.0125,
		TimeToEmpty: 4348, TimeToFull: unit.Unknown[unit.Seconds](),
	}

	aux := bms.State{
		Name: "aux", Driver: "sbs", Quality: bms.Estimated, At: at.Add(-3 * time.Second),
		Status: bms.Charging, ChargerOn: true, Rechargeable: true, Polls: 1000 + step, Failures: 2,
		LastError: "aux: timeout", EnergyIn: 90, ChargeIn: 0.02,
	}
	aux.Reading = bms.Unmeasured()
	aux.Reading.Voltage, aux.Reading.Current = 12.5, 1.5
	nan := unit.Unknown[float64]()
	aux.Estimate = bms.Estimate{
		SoC: 0.5, SoCSigma: 0.04, CoulombSoC: unit.Ratio(nan), Charge: 1.1, Capacity: 2.2, OpenCircuitVoltage: 12.375,
		Resistance: 0.1, Voltage: 12.5, Current: 1.5, Residual: unit.Volts(nan),
		TimeToEmpty: unit.Seconds(nan), TimeToFull: 2640,
	}
	s.Packs = []bms.State{main, aux}

	base := motor.State{
		Name: "base", Driver: "roboclaw", Connected: true, At: at.Add(-10 * time.Millisecond),
		Identity: motor.Identity{Model: "RoboClaw 2x15a", Firmware: "v4.3.6", Failsafe: "serial timeout 0.2 s"},
		Joints:   []motor.JointState{joint("left", t), joint("right", t)},
		Trajectory: motor.Progress{
			ID: 3, Active: true, Ratio: 0.5, Changed: 9,
		},
		Counts: motor.LoopCounts{Cycles: 90000 + 100*step, Overruns: 4, Skipped: 5, Dropped: 1, Losses: 1},
	}
	base.Joints[0].Limited = motor.LimitEffort
	base.Joints[1].Withheld = permit.CommandStale
	base.Joints[1].Command = motor.Command{Mode: motor.ModeStop}
	base.Joints[1].Feedback.Faults = motor.WarnOvertemperature
	arm := motor.State{
		Name: "arm", Driver: "dynamixel", Connected: true, At: at.Add(-5 * time.Millisecond),
		Joints: []motor.JointState{joint("lift", t), joint("shoulder", t), joint("elbow", t), joint("wrist", t)},
		Counts: motor.LoopCounts{Cycles: 180000 + 200*step},
	}
	arm.Joints[0].Prismatic = true
	arm.Joints[2].Command = motor.Command{Mode: motor.ModeVelocity, Velocity: 0.5}
	arm.Joints[3].Command = motor.Command{Mode: motor.ModePosition, Position: 1}
	arm.Joints[3].Feedback.EffortSource = motor.EffortEstimated
	s.Groups = []motor.State{base, arm}
	return s
}

func joint(name string, t float64) motor.JointState {
	j := motor.JointState{Name: name}
	j.Feedback = motor.Feedback{
		Position: unit.Position(math.Sin(t / 10)), Velocity: unit.Velocity(math.Cos(t/10) / 10),
		Effort: 1.25, EffortSource: motor.EffortMeasured, Current: 2, Power: 12.5, Temperature: 41.5, Voltage: 15.125,
	}
	j.Target = motor.Target{Position: j.Feedback.Position + 0.0625, Velocity: j.Feedback.Velocity}
	j.Wanted, j.Command = 1.5, motor.Command{Mode: motor.ModeEffort, Effort: 1.5}
	return j
}
