package configs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// faultCases break rover by replacing its text, and say what Load then tells.
var faultCases = []struct {
	name     string
	old, new string
}{
	{"unknown key", "robot: rover", "robot: rover\nrobto: x"},
	{"unknown key of a section", "interval: 20ms", "intervall: 20ms"},
	{"unknown key of a driver", "{address: 0x0b}", "{addr: 0x0b}"},
	{"wrong type", "battery_low: 20", "battery_low: twenty"},
	{"number for a duration", "interval: 20ms", "interval: 20"},
	{"text for a driver's number", "{address: 0x0b}", "{address: eleven}"},
	{"section for a number", "capacity: 5.0", "capacity: {ah: 5}"},
	{"number for a list", "[8, 8]", "8"},
	{"list for a section", "  gauge: {device: /dev/i2c-1}", "  gauge: [/dev/i2c-1]"},
	{"list of buses", "buses:\n  gauge: {device: /dev/i2c-1}\n  drive: {device: /dev/ttyACM0, baud: 115200}", "buses: [gauge]"},
	{"key given twice", "    battery_low: 20", "    battery_low: 20\n    battery_low: 30\n    battery_critical: 25"},
	{"merge key", "battery_low: 20", "<<: {battery_low: 20}"},
	{"not a number", "capacity: 5.0", "capacity: .nan"},
	{"infinite", "gear_ratio: 30", "gear_ratio: .inf"},
	{"NaN for a gain's bound", "[8, 8]", "[8, 8]\n    position_cmd_max: [.nan]"},
	{"infinite by an alias", "[8, 8]", "[8, 8]\n    position_cmd_max: &open [.inf]\n    initial_position: *open\n    velocity_p_gain: *open"},
	{"syntax", "feeds: [left, right]", "feeds: [left, right"},
	{"unknown anchor", "robot: rover", "robot: *r"},
	{"two documents", "robot: rover", "robot: rover\n---\nrobot: two"},
	{"no robot", "robot: rover\n", ""},
	{"robot's name", "robot: rover", "robot: Rover 1"},
	{"log level", "robot: rover", "robot: rover\nlog_level: loud"},

	{"no device", "{device: /dev/i2c-1}", "{}"},
	{"unknown backend", "/dev/i2c-1", "'tcp:host:1'"},
	{"I²C behind a PTY", "/dev/i2c-1", "'pty:'"},
	{"one device twice", "/dev/ttyACM0", "/dev/i2c-1"},
	{"baud of an I²C bus", "{device: /dev/i2c-1}", "{device: /dev/i2c-1, baud: 9600}"},
	{"speed of a serial port", "baud: 115200", "baud: 115200, speed: 100000"},
	{"baud out of bounds", "baud: 115200", "baud: 20"},
	{"faults on hardware", "baud: 115200", "baud: 115200, faults: {flip: 0.5}"},
	{"probability", "/dev/i2c-1}", "'sim:', faults: {flip: 1.5, nack: -1}}"},
	{"loop's timeout", "baud: 115200", "baud: 115200, timeout: 1s"},

	{"no driver", "    driver: sbs\n", ""},
	{"unknown driver", "driver: sbs", "driver: sb"},
	{"driver of the other kind", "driver: sbs", "driver: roboclaw"},
	{"no bus", "    bus: gauge\n", ""},
	{"unknown bus", "bus: gauge", "bus: gage"},
	{"polled and looped", "bus: gauge", "bus: drive"},
	{"bound of a driver", "{address: 0x0b}", "{address: 0x99}"},
	{"model without capacity", "16.8, capacity: 5.0", "16.8, capacity: -1"},
	{"no model", "    model: {open_circuit_voltage_constant_coef: 16.8, capacity: 5.0}\n", ""},
	{"fusion", "    battery_low: 20", "    fusion: {gauge_error: 2, limits: {cell_sum: -1}}\n    battery_low: 20"},
	{"critical above low", "battery_critical: 5", "battery_critical: 25"},
	{"low above 100", "battery_low: 20", "battery_low: 120"},
	{"poll too fast", "interval: 20ms", "interval: 1us"},
	{"stale too soon", "stale_after: 6s", "stale_after: 50ms"},
	{"feeds", "feeds: [left, right]", "feeds: [left, middle, left]"},
	{"topic", "battery_low: 20", "battery_low: 20\n    power_draining_topic: ['a/#']"},

	{"no joints", "    joints:\n      left: {channel: 1, gear_ratio: 30, limits: {effort: 4, velocity: 12}}\n      right: {channel: 2, like: left, reversed: true}\n", ""},
	{"no channel", "{channel: 1, gear_ratio: 30", "{gear_ratio: 30"},
	{"driver's joint", "channel: 2", "channel: 3"},
	{"channel twice", "channel: 2", "channel: 1"},
	{"like nobody", "like: left", "like: middle"},
	{"like itself", "like: left", "like: right"},
	{"command mode", "gear_ratio: 30", "command: torque"},
	{"joint's physics", "gear_ratio: 30", "gear_ratio: 0, efficiency: 1.5, lead: 1"},
	{"limits in order", "limits: {effort: 4, velocity: 12}", "limits: {lower: 1, upper: -1, effort: -4}"},
	{"joint's name", "      left:", "      Left:"},

	{"unknown joint", "joints: [left, right]", "joints: [left, middle]"},
	{"too many gains", "[8, 8]", "[8, 8, 8]"},
	{"rate", "rate: 100", "rate: 0"},
	{"bandwidth", "rate: 100", "rate: 1000"},
	{"two controllers", "mqtt:", "  rest: {joints: [right]}\nmqtt:"},

	{"no broker", "mqtt: {broker: \"tcp://localhost:1883\"}", "mqtt: {rate: 5}"},
	{"two brokers", "mqtt: {broker: \"tcp://localhost:1883\"}", "mqtt: {broker: \"tcp://localhost:1883\", embedded: {}}"},
	{"broker's scheme", "tcp://localhost", "http://localhost"},
	{"password in the URL", "tcp://localhost", "tcp://me:secret@localhost"},
	{"TLS files without TLS", "1883\"}", "1883\", ca_file: /ca.pem, cert_file: /c.pem}"},
	{"prefix and rate", "1883\"}", "1883\", prefix: /site/, rate: 100, keepalive: 1ms}"},
	{"open broker", "{broker: \"tcp://localhost:1883\"}", "{embedded: {listen: \"0.0.0.0:1883\"}}"},
	{"account without password", "{broker: \"tcp://localhost:1883\"}", "{embedded: {listen: \"0.0.0.0:1883\", accounts: {me: {}}}}"},
	{"listen everywhere by chance", "127.0.0.1:9743", ":9743"},
	{"listen nowhere", "127.0.0.1:9743", "127.0.0.1"},
	{"listen beyond the ports", "127.0.0.1:9743", "127.0.0.1:99999"},

	{"simulate nobody", "http:", "simulate: {mian: {cells: 4}}\nhttp:"},
	{"simulated pack", "http:", "simulate: {main: {cells: 0, soc: 2, capacity: 0, colour: red}, time_scale: 0}\nhttp:"},
	{"simulated joint", "http:", "simulate: {base: {left: {inertia: 0}, middle: {}}}\nhttp:"},
	{"joints that do not go with the parameters", "{address: 0x80, timeout: 200ms}", "{address: 0x87}"},
	{"two packs at one address", "    feeds:", "    feeds: []\n  spare:\n    driver: sbs\n    bus: gauge\n    model: {open_circuit_voltage_constant_coef: 16.8}\n    params: {address: 11}\n    feeds:"},
	{"I²C and serial on one bus", "    feeds:", "    feeds: []\n  spare:\n    driver: jbd\n    bus: gauge\n    model: {open_circuit_voltage_constant_coef: 16.8}\n    feeds:"},
	{"two motor controllers on one bus", "controllers:", "  arm: {driver: roboclaw, bus: drive, joints: {elbow: {channel: 1}}}\ncontrollers:"},
	{"a joint's name twice", "controllers:", "  arm: {driver: roboclaw, bus: gauge, joints: {left: {channel: 1}}}\ncontrollers:"},
	{"battery and motors of one name", "  base:\n    driver", "  main:\n    driver"},
	{"a device named as a key of simulate", "  main:", "  ambient:"},
	{"simulated motion", "115200}", "115200}\nmotion: {joint_names: [left, left, nobody], points: [{positions: [1, 1]}]}"},
	{"motion of hardware", "http:", "motion: {joint_names: [left], points: [{positions: [1]}]}\nhttp:"},
}

var update = flag.Bool("update", false, "write testdata anew")

// The golden file holds what a person reads: check a change of it line by line.
func TestEveryFaultIsToldWithItsLine(t *testing.T) {
	var got strings.Builder
	for _, c := range faultCases {
		src := strings.Replace(rover, c.old, c.new, 1)
		if src == rover {
			t.Fatalf("%s: %q is not in rover", c.name, c.old)
		}
		lines := faults(t, src)
		if len(lines) == 0 {
			t.Errorf("%s: accepted", c.name)
		}
		fmt.Fprintf(&got, "%s\n\t%s\n", c.name, strings.Join(lines, "\n\t"))
	}
	const golden = "testdata/faults.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestAllFaultsOfAFileAreToldAtOnceInOrderOfLines(t *testing.T) {
	src := strings.NewReplacer("bus: gauge", "bus: gage", "capacity: 5.0", "capacity: .inf", "feeds: [left, right]", "feeds: [middle]",
		"channel: 2", "channel: 7", "rate: 100", "rate: 5000", "tcp:", "ftp:", "http:", "htpp:").Replace(rover)
	last := 0
	lines := faults(t, src)
	for _, text := range lines {
		var line int
		if _, err := fmt.Sscanf(text, "robot.yaml:%d:", &line); err != nil || line < last {
			t.Errorf("%q after line %d", text, last)
		}
		last = line
	}
	if len(lines) < 7 {
		t.Errorf("%d faults, want at least the 7 that were put in:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

func TestFilesBeyondTheBoundsAreRefusedUnread(t *testing.T) {
	for name, src := range map[string]string{
		"too large":       "robot: rover\n#" + strings.Repeat("x", maxBytes),
		"too deep":        "robot: " + strings.Repeat("[", 100),
		"too deep blocks": strings.Repeat("a: {", 100),
		"too many":        "robot: r\nbuses: {a: {device: /dev/a}, " + manyBuses() + "}",
		"empty":           "",
		"no section":      "rover",
		"list":            "- robot",
		"aliases":         "x: &a [" + strings.Repeat("1,", 9000) + "1]\nmotion: {points: [" + strings.Repeat("{positions: *a},", 50) + "]}",
	} {
		t.Run(name, func(t *testing.T) {
			lines := faults(t, src)
			if len(lines) == 0 {
				t.Error("accepted")
			}
			if n := len(strings.Join(lines, "")); n > 64<<10 {
				t.Errorf("%d bytes of faults", n)
			}
		})
	}
}

func TestMotionIsHeldToTheJointsLimits(t *testing.T) {
	simulated := strings.NewReplacer("/dev/ttyACM0", "'pty:'", "velocity: 12", "velocity: 12, lower: -2, upper: 2").Replace(rover)
	for points, want := range map[string]string{
		"[{positions: [3, 0], time_from_start: 1s}]":                        "motion.points[0].positions[0]: 3: joint left is limited to -2 to 2",
		"[{positions: [1, 0], effort: [0, -9], time_from_start: 1s}]":       "motion.points[0].effort[1]: -9: joint right is limited to -4 to 4",
		"[{positions: [1], time_from_start: 1s}]":                           "motion.points[0].positions: 1 numbers: want none, or one a joint, 2",
		"[{positions: [1, 0], time_from_start: 1s}, {time_from_start: 1s}]": "motion.points[1].time_from_start: 1s: want later than the waypoint before, 1s",
		"[{positions: [1, 0], time_from_start: 5s}], period: 4s":            "motion.period: 4s: want above 0 and at least the last waypoint's time, 5s",
		"[]": "motion.points: 0 waypoints: want 1 to 1000",
		"[{velocities: [13, 0], positions: [.nan, 0], time_from_start: 1s}]": "motion.points[0].positions[0]: .nan: want a finite number",
	} {
		lines := faults(t, simulated+"motion: {joint_names: [left, right], points: "+points+"}\n")
		if !strings.Contains(strings.Join(lines, "\n"), want) {
			t.Errorf("%s: %q, want %q", points, lines, want)
		}
	}
}

func manyBuses() string {
	var b strings.Builder
	for i := range maxEntries {
		fmt.Fprintf(&b, "b%d: {device: /dev/b%d}, ", i, i)
	}
	return b.String()
}

// What Load accepts keeps the promises that the rest of the gateway relies on; what it refuses it refuses
// with lines that exist.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(rover))
	f.Add(Demo())
	for _, c := range faultCases {
		f.Add([]byte(strings.Replace(rover, c.old, c.new, 1)))
	}
	f.Add([]byte("a: &a [*a]\nb: !!binary x\n? [1]\n: {<<: 2}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := Load("f.yaml", src, registry())
		if err != nil {
			all, ok := errors.AsType[Faults](err)
			if !ok || len(all) == 0 || file != nil {
				t.Fatalf("file %v beside the error %T %v", file, err, err)
			}
			lines := 2 + bytes.Count(src, []byte("\n")) + bytes.Count(src, []byte("\r")) + bytes.Count(src, []byte("\u2028")) + bytes.Count(src, []byte("\u2029")) + bytes.Count(src, []byte("\u0085"))
			for _, fault := range all {
				if fault.Line < 0 || fault.Line > lines || fault.Text == "" {
					t.Errorf("fault %+v in a file of %d lines", fault, lines)
				}
			}
			return
		}
		for _, b := range file.Batteries {
			if file.Bus(b.Bus) == nil || b.Poll.Interval <= 0 || !(b.BatteryCritical < b.BatteryLow) || !(b.Plant.HeatCapacity > 0) {
				t.Errorf("accepted battery %+v", b)
			}
		}
		for i, g := range file.Motors {
			if bus := file.Bus(g.Bus); bus == nil || !bus.Looped || !bus.Serial || bus.Timeout <= 0 || len(g.Plants) != len(g.Joints) {
				t.Errorf("accepted motors %+v", g)
			}
			for _, j := range g.Joints {
				if j.Channel == 0 || !(j.GearRatio > 0) || !(j.Efficiency > 0) {
					t.Errorf("accepted joint %+v", j)
				}
			}
			if c := file.ControllerOf(&file.Motors[i]); c != nil && c.Period() <= 0 {
				t.Errorf("accepted controller %+v", c)
			}
		}
		if m := file.MQTT; m != nil && (m.Broker == "") == (m.Embedded == nil) {
			t.Errorf("accepted mqtt %+v", m)
		}
	})
}
