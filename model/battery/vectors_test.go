package battery

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilgate/bms"
	"hilgate/model/unit"
)

// The vectors were recorded from Gazebo's own plugin; testdata holds them as they are. HIL_VECTORS may name
// a folder with further cases.

// element is one SDF element of the plugin: name and text.
type element [2]string

// parse reads SDF elements as Gazebo does: the first of a name counts, blanks around a text do not, a text
// that is no number is 0, one that is no boolean is false, and elements that nobody reads do no harm. The
// error names what a strict decoder, as that of the gateway's own configuration, refuses of it.
func parse(elements []element, c *Config) error {
	numbers := map[string]*float64{
		"voltage":                            (*float64)(&c.Voltage),
		"capacity":                           (*float64)(&c.Capacity),
		"initial_charge":                     (*float64)(&c.InitialCharge),
		"open_circuit_voltage_constant_coef": (*float64)(&c.E0),
		"open_circuit_voltage_linear_coef":   (*float64)(&c.E1),
		"resistance":                         (*float64)(&c.Resistance),
		"smooth_current_tau":                 (*float64)(&c.Tau),
		"power_load":                         (*float64)(&c.PowerLoad),
		"charging_time":                      &c.ChargingTime,
	}
	booleans := map[string]*bool{
		"enable_recharge":     &c.EnableRecharge,
		"fix_issue_225":       &c.FixIssue225,
		"start_draining":      &c.StartDraining,
		"invert_current_sign": &c.InvertCurrentSign,
	}
	var faults []error
	seen := map[string]bool{}
	for _, e := range elements {
		name, text := e[0], strings.TrimSpace(e[1])
		number, boolean := numbers[name], booleans[name]
		if seen[name] {
			if number != nil || boolean != nil {
				faults = append(faults, fmt.Errorf("%s is given twice", name))
			}
			continue
		}
		seen[name] = true
		switch {
		case number != nil:
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", name, err))
				v = 0
			}
			*number = v
		case boolean != nil:
			lower := strings.ToLower(text)
			*boolean = lower == "true" || lower == "1"
			if _, err := strconv.ParseBool(lower); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", name, err))
			}
		case name == "battery_name":
			c.Name = text
		case name == "recharge_by_topic":
			c.RechargeByTopic = true
		}
	}
	return errors.Join(faults...)
}

type vector struct {
	Format, Name, What, Expected, Provenance string

	Params   []element
	Joints   []string
	Edge     bool
	Record   json.RawMessage
	Timeline []struct {
		Op     string
		N      int
		DtNs   int64 `json:"dt_ns"`
		ID     string
		Watts  float
		Joint  string
		Values []float
		Data   any
	}
}

// float is a number in JSON that may also be written "nan", "inf" or "-inf".
type float float64

func (f *float) UnmarshalJSON(src []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(src), `"`), 64)
	*f = float(v)
	return err
}

// floats has the values as Commanded takes them.
func floats(values []float) []float64 {
	all := make([]float64, len(values))
	for i, v := range values {
		all[i] = float64(v)
	}
	return all
}

// strict decodes JSON and refuses keys that the struct does not have.
func strict(src []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(quoted(src)))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// nonFinite finds strings, to be left alone, and the numbers that JSON lacks but some of its writers have.
var nonFinite = regexp.MustCompile(`(?i)"(?:[^"\\]|\\.)*"|-?\b(?:nan|inf|infinity)\b`)

// quoted puts such numbers into quotes.
func quoted(src []byte) []byte {
	return nonFinite.ReplaceAllFunc(src, func(m []byte) []byte {
		if m[0] == '"' {
			return m
		}
		return strconv.AppendQuote(nil, string(m))
	})
}

func folders() []string {
	all := []string{filepath.Join("testdata", "battery")}
	if more := os.Getenv("HIL_VECTORS"); more != "" {
		all = append(all, filepath.Join(more, "gazebo", "battery"))
	}
	return all
}

func TestVectorsGazeboBattery(t *testing.T) {
	cases := 0
	for i, folder := range folders() {
		if _, err := os.Stat(folder); i > 0 && errors.Is(err, fs.ErrNotExist) {
			t.Logf("%s: no such family there", folder)
			continue
		}
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no vectors in %s (%v)", folder, err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			if name == "config_cases" {
				cases += runConfigurations(t, src)
				continue
			}
			cases++
			t.Run(name, func(t *testing.T) { runTimeline(t, src, strings.TrimSuffix(file, ".json")+".csv") })
		}
	}
	t.Logf("vectors gazebo/battery: %d cases, 0 unsupported ()", cases)
}

// runTimeline drives one battery and compares every recorded row.
func runTimeline(t *testing.T, src []byte, rows string) {
	var v vector
	if err := strict(src, &v); err != nil {
		t.Fatal(err)
	}
	if v.Format != "gz-battery/1" {
		t.Fatalf("format %q", v.Format)
	}
	c := Gazebo()
	if err := parse(v.Params, &c); err != nil {
		t.Logf("Gazebo reads on: %v", err)
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(rows)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 2 {
		t.Fatalf("%s has no rows", rows)
	}
	header, want := want[0], want[1:]

	velocity, force := map[string][]float64{}, map[string][]float64{}
	foreign := map[string]bool{} // consumers of another battery
	step, now, paused := 0, int64(0), false
	for _, op := range v.Timeline {
		switch op.Op {
		case "step":
			for range op.N {
				dt := op.DtNs
				if paused {
					dt = 0
				}
				now += dt
				for _, joint := range v.Joints {
					b.Commanded(velocity[joint]...)
					b.Commanded(force[joint]...)
				}
				if !paused {
					b.Step(time.Duration(dt))
				}
				if len(want) > 0 && want[0][0] == strconv.Itoa(step) {
					compareRow(t, b, header, want[0], map[string]float64{
						"step": float64(step), "sim_time_ns": float64(now), "dt_ns": float64(dt), "paused": number(paused),
					}, paused)
					want = want[1:]
				}
				step++
			}
		case "pause":
			paused = true
		case "resume":
			paused = false
		case "start_draining":
			b.Drain(true)
		case "stop_draining":
			b.Drain(false)
		case "start_charging":
			b.Recharge(true)
		case "stop_charging":
			b.Recharge(false)
		case "add_consumer":
			foreign[op.ID] = false
			b.SetConsumer("consumer "+op.ID, unit.Watts(op.Watts))
		case "set_consumer":
			if !foreign[op.ID] {
				b.SetConsumer("consumer "+op.ID, unit.Watts(op.Watts))
			}
		case "remove_consumer":
			if !foreign[op.ID] {
				b.RemoveConsumer("consumer " + op.ID)
			}
			foreign[op.ID] = false
		case "add_foreign_consumer":
			foreign[op.ID] = true
		case "joint_velocity_cmd":
			velocity[op.Joint] = floats(op.Values)
		case "joint_force_cmd":
			force[op.Joint] = floats(op.Values)
		case "clear_joint_cmd":
			delete(velocity, op.Joint)
			delete(force, op.Joint)
		case "reset":
			b.Reset()
			now = 0
		default:
			t.Fatalf("unknown operation %q", op.Op)
		}
		if t.Failed() {
			return
		}
	}
	if len(want) > 0 {
		t.Errorf("%d rows not reached, the first %v", len(want), want[0])
	}
}

var statusNames = map[bms.Status]string{
	bms.Charging: "CHARGING", bms.Discharging: "DISCHARGING", bms.NotCharging: "NOT_CHARGING", bms.Full: "FULL",
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func compareRow(t *testing.T, b *Battery, header, row []string, got map[string]float64, paused bool) {
	t.Helper()
	m := b.Message()
	got["soc"], got["i_raw"] = float64(b.SoC()), float64(-b.RawCurrent())
	got["draining"], got["charging"] = number(b.Draining()), number(b.Charging())
	got["off"] = number(b.Empty())
	if !paused {
		got["voltage"], got["current"] = float64(m.Voltage), float64(m.Current)
		got["charge"], got["capacity"], got["percentage"] = float64(m.Charge), float64(m.Capacity), m.Percentage
	}
	for i, column := range header {
		text := row[i]
		if column == "status" {
			status := statusNames[m.Status]
			if paused {
				status = ""
			}
			if status != text {
				t.Errorf("step %s: status %q, want %q", row[0], status, text)
			}
			continue
		}
		if column == "soc_f32" {
			want, err := strconv.ParseFloat(text, 32)
			if have := float64(b.SoC32()); err != nil || have != want && !(math.IsNaN(have) && math.IsNaN(want)) {
				t.Errorf("step %s: soc_f32 %v, want %s (%v)", row[0], have, text, err)
			}
			continue
		}
		have, shown := got[column]
		if !shown {
			if text != "" {
				t.Errorf("step %s: %s is not published, want %s", row[0], column, text)
			}
			continue
		}
		want, err := strconv.ParseFloat(text, 64)
		if err != nil || have != want && !(math.IsNaN(have) && math.IsNaN(want)) {
			t.Errorf("step %s: %s %.17g, want %s (%v)", row[0], column, have, text, err)
		}
	}
}

// runConfigurations compares what Gazebo makes of a configuration, and sees ours refuse what should be.
func runConfigurations(t *testing.T, src []byte) int {
	var file struct {
		Format, Provenance string
		Cases              []struct {
			Name             string
			Params           []element
			Battery          bool
			StateTopic       *bool `json:"state_topic"`
			RechargeServices *bool `json:"recharge_services"`
			RechargeTopics   *bool `json:"recharge_topics"`
			Original         string
			ShouldRefuse     bool `json:"should_refuse"`
		}
	}
	if err := strict(src, &file); err != nil {
		t.Fatal(err)
	}
	if file.Format != "gz-battery-config/1" {
		t.Fatalf("format %q", file.Format)
	}
	for _, k := range file.Cases {
		t.Run("config "+k.Name, func(t *testing.T) {
			exact := Gazebo()
			if err := parse(k.Params, &exact); err != nil {
				t.Logf("Gazebo reads on: %v", err)
			}
			got, err := exact.Setup()
			want := Setup{k.Battery, got.StateTopic, got.RechargeServices, got.RechargeTopics}
			if k.StateTopic != nil {
				want.StateTopic = *k.StateTopic
			}
			if k.RechargeServices != nil {
				want.RechargeServices = *k.RechargeServices
			}
			if k.RechargeTopics != nil {
				want.RechargeTopics = *k.RechargeTopics
			}
			if got != want {
				t.Errorf("Gazebo makes %+v of it (%v), want %+v", got, err, want)
			}
			if _, err = New(exact); (err == nil) != want.StateTopic {
				t.Errorf("New: %v, state topic wanted %v", err, want.StateTopic)
			}
			ours := Default()
			misread := parse(k.Params, &ours)
			if refused := errors.Join(err, misread, ours.Check()); refused == nil && k.ShouldRefuse {
				t.Errorf("Check takes what it should refuse: %s", k.Original)
			}
		})
	}
	return len(file.Cases)
}
