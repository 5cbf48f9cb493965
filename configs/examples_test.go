package configs_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilgate/configs"
	"hilgate/drivers/all"
	"hilgate/model/battery"
	"hilgate/model/fusion"
	"hilgate/model/plant"
	"hilgate/model/unit"
	"hilgate/motor"
)

func load(t *testing.T, name string) *configs.File {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := configs.Load(name, src, all.Registry())
	if err != nil {
		t.Fatalf("%s:\n%v", name, err)
	}
	return f
}

func TestExamplesLoadWithTheRealDrivers(t *testing.T) {
	names, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		if src, _ := os.ReadFile(name); !strings.Contains(string(src), "\nrobot:") {
			continue // for another program
		}
		found++
		load(t, name)
	}
	if found < 3 {
		t.Errorf("%d examples among %v, want demo, robot and bench", found, names)
	}
}

// What is commented out in the robot's file is shown as a default or as another choice: both must load.
func TestCommentedOutKeysOfTheRobotLoadToo(t *testing.T) {
	src, err := os.ReadFile("robot.yaml")
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`(?m)^( *)# ([a-z_]+: .*)$`)
	taken := 0
	for _, at := range key.FindAllSubmatchIndex(src, -1) {
		line := string(src[at[2]:at[3]]) + string(src[at[4]:at[5]])
		name, _, _ := strings.Cut(string(src[at[4]:at[5]]), ":")
		text := string(src[:at[0]]) + line + string(src[at[1]:])
		text = regexp.MustCompile(`(?m)^  broker: tcp.*$`).ReplaceAllString(text, "  broker: ssl://localhost:8883")
		if name == "broker" || name == "password_file" {
			continue // stands beside the one above it
		}
		if _, err := configs.Load("robot.yaml", []byte(text), all.Registry()); err != nil {
			t.Errorf("with %q:\n%v", line, err)
		}
		taken++
	}
	if taken < 8 {
		t.Errorf("%d keys are commented out, want the optional ones", taken)
	}
}

func TestDemoIsAllSimulated(t *testing.T) {
	f, err := configs.Load("demo.yaml", configs.Demo(), all.Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range f.Buses {
		if !b.Simulated() {
			t.Errorf("bus %s is at %s", b.Name, b.Device)
		}
	}
	if f.Robot != "rover" || f.MQTT.Embedded.Listen != configs.DefaultBroker || f.HTTP.Listen != configs.DefaultHTTP || f.Motion == nil {
		t.Errorf("robot %s, broker %s, http %s, motion %v", f.Robot, f.MQTT.Embedded.Listen, f.HTTP.Listen, f.Motion)
	}
}

func TestBenchIsServedWhereTheGatewayOpensIt(t *testing.T) {
	f := load(t, "bench.yaml")
	for _, name := range []string{"main", "base"} {
		if !f.Serves(name) {
			t.Errorf("gateway sim does not serve %s", name)
		}
	}
	for _, b := range f.Buses {
		if b.Simulated() || !filepath.IsAbs(b.Device) {
			t.Errorf("bus %s is at %s, want a path that two processes can share", b.Name, b.Device)
		}
	}
}

func TestHastenedPackDrainsFaster(t *testing.T) {
	f := load(t, "demo.yaml")
	b := f.Battery("main")
	current := b.Model.Capacity / unit.AmpereHours(b.Model.ChargingTime)
	f.Hasten(60)
	if got := float64(b.Model.Capacity); math.Abs(got-5./60) > 1e-12 || b.Plant.Capacity != b.Model.Capacity || b.Fusion.Model.Capacity != b.Model.Capacity {
		t.Errorf("capacities %v, %v, %v, want 1/12 Ah", got, b.Plant.Capacity, b.Fusion.Model.Capacity)
	}
	if got := b.Model.Capacity / unit.AmpereHours(b.Model.ChargingTime); math.Abs(float64(got-current)) > 1e-9 {
		t.Errorf("charging current %v A, want %v", got, current)
	}
	robot := load(t, "robot.yaml")
	robot.Hasten(60)
	if got := robot.Battery("main").Model.Capacity; got != 5 {
		t.Errorf("a real pack holds %v Ah after Hasten, want 5", got)
	}
}

// The demo's robot, with ideal controllers: the joints follow the motion within their limits, and their work
// and the electronics empty the pack in hours.
func TestDemoRobotMakesPhysicalSense(t *testing.T) {
	f := load(t, "demo.yaml")
	c, g, b := &f.Controllers[0], &f.Motors[0], f.Battery("main")
	var w plant.World
	pack := w.AddPack(b.Plant)
	var joints []*plant.Joint
	for i := range g.Joints {
		joints = append(joints, w.AddJoint(g.Plants[i], pack))
	}
	const tick = 10 * time.Millisecond
	worst, hottest, lowest, work := 0., 0., 99., 0.
	previous := make([]float64, len(joints))
	for at := time.Duration(0); at < time.Minute; at += tick {
		for i, j := range joints {
			target := follow(f.Motion, i, at%f.Motion.Period)
			err := float64(j.Position()) - target
			gains := c.Position(i)
			effort := -gains.PGain*err - gains.DGain*(err-previous[i])/tick.Seconds()
			previous[i] = err
			effort = min(max(effort, -float64(g.Joints[i].Limits.Effort)), float64(g.Joints[i].Limits.Effort))
			m := &g.Joints[i]
			torque := m.MotorTorque(unit.Effort(effort), effort*float64(j.Velocity()) >= 0)
			j.Drive(unit.Volts(torque/m.TorqueConstant*float64(m.WindingResistance) + m.TorqueConstant*j.MotorSpeed()))
			worst = max(worst, math.Abs(err))
			hottest = max(hottest, math.Abs(float64(j.Current())))
			work += float64(j.Power()) * tick.Seconds()
		}
		w.AdvanceTo(at + tick)
		lowest = min(lowest, float64(pack.Voltage()))
	}
	mean := work / 60
	hours := float64(b.Plant.Capacity) * float64(b.Plant.SoC) * 15 / (float64(b.Plant.Load) + mean)
	t.Logf("largest error %.3f rad, largest current %.2f A, lowest voltage %.2f V, joints %.1f W in the mean, so %.1f h", worst, hottest, lowest, mean, hours)
	if worst > 0.25 || hottest > float64(g.Joints[0].Limits.Current) || lowest < 14 || mean < 2 || hours < 1 || hours > 6 {
		t.Error("that is no robot to show")
	}
}

// follow is where joint i of a motion shall be: on the line between two waypoints, or from the last to the first.
func follow(m *configs.Motion, i int, at time.Duration) float64 {
	from := m.Points[len(m.Points)-1]
	from.TimeFromStart = 0
	for k, p := range m.Points {
		if at <= p.TimeFromStart {
			if k > 0 {
				from = m.Points[k-1]
			}
			part := float64(at-from.TimeFromStart) / float64(p.TimeFromStart-from.TimeFromStart)
			return from.Positions[i] + part*(p.Positions[i]-from.Positions[i])
		}
	}
	return m.Points[len(m.Points)-1].Positions[i]
}

// keysOf lists the keys of a type of the configuration, those of its sections included.
func keysOf(t reflect.Type, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		keysOf(t.Elem(), keys)
	case reflect.Struct:
		if !strings.HasPrefix(t.PkgPath(), "hilgate/") {
			return
		}
		for f := range t.Fields() {
			key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if key == "-" || !f.IsExported() {
				continue
			}
			if key != "" {
				keys[key] = true
			} else if !slices.Contains(strings.Split(options, ","), "inline") {
				keys[strings.ToLower(f.Name)] = true
			}
			keysOf(f.Type, keys)
		}
	}
}

func TestDocumentationHasEveryKey(t *testing.T) {
	doc, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{"like": true}
	for _, of := range []any{configs.File{}, battery.Config{}, fusion.Config{}, plant.PackConfig{}, plant.JointConfig{}, motor.Joint{}} {
		keysOf(reflect.TypeOf(of), keys)
	}
	registry := all.Registry()
	for _, name := range registry.Names() {
		spec, _ := registry.Lookup(name)
		keysOf(reflect.TypeOf(spec.Defaults()), keys)
	}
	if len(keys) < 100 {
		t.Errorf("%d keys found, want all of them", len(keys))
	}
	for key := range keys {
		if !strings.Contains(string(doc), "`"+key+"`") {
			t.Errorf("docs/configuration.md has no `%s`", key)
		}
	}
}

// A default that is a number other than 0 stands in a cell of its key's row, in the section of its owner.
func TestDocumentationHasTheDefaults(t *testing.T) {
	doc, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(doc), "\n##")[1:] {
		head, body, _ := strings.Cut(s, "\n")
		if name := strings.Split(head, "`"); len(name) > 1 {
			sections[name[1]] = body
		}
	}
	of := map[string][]any{"fusion": {fusion.Default(), fusion.DefaultLimits()}}
	registry := all.Registry()
	for _, name := range registry.Names() {
		spec, _ := registry.Lookup(name)
		of[name] = []any{spec.Defaults()}
	}
	told := 0
	for section, owners := range of {
		for _, owner := range owners {
			v := reflect.Indirect(reflect.ValueOf(owner))
			for f, value := range v.Fields() {
				key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
				var want float64
				switch {
				case key == "" || key == "-":
				case value.CanFloat():
					want = value.Float()
				case value.CanInt():
					want = float64(value.Int())
				case value.CanUint():
					want = float64(value.Uint())
				}
				if want == 0 || math.IsNaN(want) || value.CanInt() && value.Type().PkgPath() != "time" && value.Type().PkgPath() != "" {
					continue // not set, not known, or a word
				}
				told++
				if !slices.ContainsFunc(rowOf(sections[section], key), func(cell string) bool { return number(cell) == want }) {
					t.Errorf("docs/configuration.md: the default of `%s` of %s is %v: no cell of %q says so", key, section, value, rowOf(sections[section], key))
				}
			}
		}
	}
	if told < 25 {
		t.Errorf("%d defaults compared, want all", told)
	}
}

// rowOf is the row of a key in the tables of a section, by cells.
func rowOf(section, key string) []string {
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 && strings.Contains(cells[1], "`"+key+"`") {
			return cells[2:]
		}
	}
	return nil
}

// number is a cell's number, or its duration in nanoseconds; NaN without one.
func number(cell string) float64 {
	cell = strings.ReplaceAll(strings.TrimSpace(cell), "−", "-")
	if d, err := time.ParseDuration(cell); err == nil {
		return float64(d)
	}
	if n, err := strconv.ParseInt(cell, 0, 64); err == nil {
		return float64(n)
	}
	if x, err := strconv.ParseFloat(cell, 64); err == nil {
		return x
	}
	return math.NaN()
}
