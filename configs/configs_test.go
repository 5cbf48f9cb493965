package configs

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"periph.io/x/conn/v3/i2c"

	"hilgate/bms"
	"hilgate/drivers"
	"hilgate/drivers/sim"
	"hilgate/model/plant"
	"hilgate/motor"
)

// gaugeParams and clawParams stand for the parameters of real drivers.
type (
	gaugeParams struct {
		Address uint16 `yaml:"address"`
		PEC     string `yaml:"pec"`
	}
	clawParams struct {
		Address uint8         `yaml:"address"`
		Timeout time.Duration `yaml:"timeout"`
	}
)

func (p gaugeParams) BusAddress() uint16 { return p.Address }

func (p gaugeParams) Check() error {
	if p.Address < 0x08 || p.Address > 0x77 {
		return fmt.Errorf("address: 0x%02x, want 0x08 to 0x77", p.Address)
	}
	return nil
}

// registry stands for the drivers: one of each kind, which can be checked and not opened.
func registry() *drivers.Registry {
	return drivers.NewRegistry(
		drivers.I2CPack("sbs", "", gaugeParams{Address: 0x0b, PEC: "auto"},
			func(i2c.Bus, gaugeParams) (bms.Pack, error) { return nil, nil },
			func(gaugeParams, *plant.Pack) sim.Target { return nil }),
		drivers.SerialPack("jbd", "", struct{}{},
			func(io.ReadWriter, struct{}) (bms.Pack, error) { return nil, nil },
			func(struct{}, *plant.Pack) sim.Peer { return nil }),
		drivers.SerialGroup("roboclaw", "", clawParams{Address: 0x80, Timeout: 300 * time.Millisecond},
			drivers.GroupDriver[clawParams]{
				Open: func(_ io.ReadWriter, p clawParams, joints []motor.Joint) (motor.Group, error) {
					if p.Address == 0x87 && len(joints) > 1 {
						return nil, errors.New("joints: 2, want 1 behind a unit at 0x87")
					}
					return nil, nil
				},
				Peer:       func(clawParams, []motor.Joint, []*plant.Joint) sim.Peer { return nil },
				CycleBytes: func(_ clawParams, joints []motor.Joint) int { return 13 * len(joints) },
				Joint: func(j *motor.Joint) error {
					if j.Channel < 1 || j.Channel > 2 {
						return fmt.Errorf("channel: %d, want 1 or 2", j.Channel)
					}
					return nil
				},
			}),
	)
}

// rover is a sound file, which the tests below break one line at a time.
const rover = `robot: rover
buses:
  gauge: {device: /dev/i2c-1}
  drive: {device: /dev/ttyACM0, baud: 115200}
batteries:
  main:
    driver: sbs
    bus: gauge
    params: {address: 0x0b}
    poll: {interval: 20ms, stale_after: 6s}
    model: {open_circuit_voltage_constant_coef: 16.8, capacity: 5.0}
    battery_low: 20
    battery_critical: 5
    feeds: [left, right]
motors:
  base:
    driver: roboclaw
    bus: drive
    params: {address: 0x80, timeout: 200ms}
    joints:
      left: {channel: 1, gear_ratio: 30, limits: {effort: 4, velocity: 12}}
      right: {channel: 2, like: left, reversed: true}
controllers:
  base:
    joints: [left, right]
    rate: 100
    position_p_gain: [8, 8]
mqtt: {broker: "tcp://localhost:1883"}
http: {listen: "127.0.0.1:9743"}
`

func mustLoad(t *testing.T, src string) *File {
	t.Helper()
	f, err := Load("robot.yaml", []byte(src), registry())
	if err != nil {
		t.Fatalf("Load: %v\n%s", err, src)
	}
	return f
}

// faults are the lines that Load complains in; none if it accepts src.
func faults(t *testing.T, src string) []string {
	t.Helper()
	f, err := Load("robot.yaml", []byte(src), registry())
	if err == nil {
		return nil
	}
	if f != nil {
		t.Error("Load gives a file beside its faults")
	}
	if _, ok := errors.AsType[Faults](err); !ok {
		t.Errorf("the error of Load is a %T, want Faults", err)
	}
	if _, ok := errors.AsType[Fault](err); !ok {
		t.Error("no Fault is in the error of Load")
	}
	return strings.Split(err.Error(), "\n")
}

func TestSoundFileLoads(t *testing.T) { mustLoad(t, rover) }

func TestDefaultsAreFilledIn(t *testing.T) {
	f := mustLoad(t, `
robot: rover
buses: {gauge: {device: "sim:"}, drive: {device: "pty:"}, spare: {device: COM3}}
batteries:
  main: {driver: sbs, bus: gauge, model: {open_circuit_voltage_constant_coef: 16.8, initial_charge: 1, capacity: 4}}
motors:
  base: {driver: roboclaw, bus: drive, joints: {left: {channel: 1}}}
mqtt: {embedded: {}}
`)
	b := f.Battery("main")
	got := map[string]any{
		"i2c timeout": f.Bus("gauge").Timeout, "serial timeout": f.Bus("drive").Timeout, "baud": f.Bus("drive").Baud,
		"interval": b.Poll.Interval, "stale": b.Poll.StaleAfter, "low": b.Low(), "critical": b.Critical(),
		"tau": b.Model.Tau, "gauge error": b.Fusion.GaugeError, "battery name": b.Model.Name,
		"http": f.HTTP.Listen, "broker": f.MQTT.Embedded.Listen, "client": f.MQTT.ClientID, "mqtt rate": f.MQTT.Rate,
		"plant capacity": b.Plant.Capacity, "plant soc": b.Plant.SoC, "cells": b.Plant.Cells,
		"inertia": f.Motors[0].Plants[0].Inertia, "level": f.LogLevel.String(), "scale": f.Simulate.TimeScale,
	}
	want := map[string]string{
		"i2c timeout": "100ms", "serial timeout": "20ms", "baud": "115200",
		"interval": "100ms", "stale": "5s", "low": "0.2", "critical": "0.05",
		"tau": "1", "gauge error": "0.02", "battery name": "main",
		"http": "127.0.0.1:9743", "broker": "127.0.0.1:1883", "client": "hilgate-rover", "mqtt rate": "5",
		"plant capacity": "4", "plant soc": "0.25", "cells": "4",
		"inertia": "0.02", "level": "INFO", "scale": "1",
	}
	for key, value := range got {
		if fmt.Sprint(value) != want[key] {
			t.Errorf("%s = %v, want %s", key, value, want[key])
		}
	}
}

func TestListsKeepTheOrderOfTheFile(t *testing.T) {
	f := mustLoad(t, `
robot: rover
buses: {z: {device: /dev/z}, a: {device: /dev/a}, m: {device: /dev/m}}
motors:
  zeta: {driver: roboclaw, bus: z, joints: {y: {channel: 2}, b: {channel: 1}}}
  alpha: {driver: roboclaw, bus: a, joints: {x: {channel: 1}}}
`)
	var got []string
	for _, b := range f.Buses {
		got = append(got, b.Name)
	}
	for _, g := range f.Motors {
		got = append(got, g.Name)
		for _, j := range g.Joints {
			got = append(got, j.Name)
		}
	}
	want := []string{"z", "a", "m", "zeta", "y", "b", "alpha", "x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLikeCopiesAllButChannelAndDirection(t *testing.T) {
	f := mustLoad(t, `
robot: rover
buses: {drive: {device: /dev/ttyACM0}}
motors:
  base:
    driver: roboclaw
    bus: drive
    joints:
      b: {channel: 2, like: a, gear_ratio: 20, limits: {effort: .nan}}
      a: {channel: 1, reversed: true, gear_ratio: 30, command: velocity, limits: {effort: 4, velocity: 12}}
`)
	a, b := f.Motors[0].Joints[1], f.Motors[0].Joints[0]
	if b.Name != "b" || b.Channel != 2 || b.Reversed || b.GearRatio != 20 || b.Command != motor.ModeVelocity {
		t.Errorf("b = %+v", b)
	}
	if b.Limits.Velocity != 12 || b.Limits.Effort == 4 {
		t.Errorf("limits of b = %+v, want velocity copied and effort undone", b.Limits)
	}
	if !a.Reversed || a.GearRatio != 30 || a.Limits.Effort != 4 {
		t.Errorf("a = %+v", a)
	}
}

func TestControllerHasAGainAJoint(t *testing.T) {
	f := mustLoad(t, strings.Replace(rover, "position_p_gain: [8, 8]",
		"position_p_gain: [8, 9]\n    velocity_i_max: [0, .inf]\n    position_cmd_min: [-4]\n    position_cmd_max: [4]\n    initial_position: [0.5]", 1))
	c := f.ControllerOf(f.Group("base"))
	if c == nil || c.Index("right") != 1 || c.Index("none") != -1 {
		t.Fatalf("controller = %+v", c)
	}
	left, right := c.Position(0), c.Position(1)
	if left.PGain != 8 || right.PGain != 9 || left.CmdMin != -4 || left.CmdMax != 4 {
		t.Errorf("position of left %+v, of right %+v", left, right)
	}
	if right.CmdMin != 0 || right.CmdMax != -1 || c.Velocity(0).IMax != 0 || c.Velocity(1).PGain != 0 {
		t.Errorf("what a list lacks is not Gazebo's default: %+v, %+v", right, c.Velocity(1))
	}
	if c.Initial(0) != 0.5 || c.Initial(1) != 0 || c.Period() != 10*time.Millisecond {
		t.Errorf("initial positions %v, %v, period %v", c.Initial(0), c.Initial(1), c.Period())
	}
}

func TestAliasesStandForWholeValues(t *testing.T) {
	f := mustLoad(t, strings.NewReplacer(
		"left: {channel: 1, gear_ratio: 30, limits: {effort: 4, velocity: 12}}", "left: {channel: 1, limits: &bounds {effort: 4}}",
		"right: {channel: 2, like: left, reversed: true}", "right: {channel: 2, limits: *bounds}",
	).Replace(rover))
	if got := f.Motors[0].Joints[1].Limits.Effort; got != 4 {
		t.Errorf("effort limit of right = %v, want 4", got)
	}
}

func TestBusIsWhatItsDevicesAre(t *testing.T) {
	f := mustLoad(t, rover)
	if g := f.Bus("gauge"); g.Serial || g.Looped {
		t.Errorf("gauge = %+v, want an I²C bus that is polled", g)
	}
	if d := f.Bus("drive"); !d.Serial || !d.Looped {
		t.Errorf("drive = %+v, want a serial port that is looped", d)
	}
}

func TestSimulatedDevicesAreServed(t *testing.T) {
	f := mustLoad(t, rover+"simulate: {base: {left: {inertia: 0.5}}}\n")
	if !f.Serves("base") || f.Serves("main") || f.Serves("none") {
		t.Errorf("served: base %v, main %v, none %v; want true, false, false", f.Serves("base"), f.Serves("main"), f.Serves("none"))
	}
	if g := f.Group("base"); g.Plants[0].Inertia != 0.5 || g.Plants[1].Inertia != 0.02 || g.Plants[1].Ratio != -30 {
		t.Errorf("plants = %+v", g.Plants)
	}
}

func TestMotionIsOneMessage(t *testing.T) {
	f := mustLoad(t, strings.NewReplacer("/dev/ttyACM0", "'pty:'").Replace(rover)+`
motion:
  joint_names: [right]
  points: [{positions: [1], time_from_start: 1s}, {positions: [-1], velocities: [0.5], time_from_start: 2500ms}]
`)
	m := f.Motion.Message()
	if f.Motion.Period != 2500*time.Millisecond || len(m.Points) != 2 || m.JointNames[0] != "right" ||
		m.Points[1].Positions[0] != -1 || m.Points[1].Velocities[0] != 0.5 || m.Points[1].FromStart != 2500*time.Millisecond {
		t.Errorf("period %v, message %+v", f.Motion.Period, m)
	}
}
