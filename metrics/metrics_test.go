package metrics

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"hilgate/bms"
	"hilgate/metrics/grafana/grafanatest"
	"hilgate/model"
	"hilgate/model/link"
	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
)

var update = flag.Bool("update", false, "write the golden files")

const golden = "testdata/metrics.prom"

// scrape asks for the page as a client does that accepts this format.
func scrape(m *Metrics, accept string) string {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	return w.Body.String()
}

// fixedPage is the page of a robot that has something of everything, in the classic text format. The
// bubble's clock stands still, so that it is the same each time.
func fixedPage(t *testing.T) (text string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRobot(time.Now())
		arm := &r.snapshot.Groups[1]
		for _, c := range []motor.Command{
			{Mode: motor.ModeVelocity, Velocity: 0.25},
			{Mode: motor.ModePosition, Position: 0.5},
		} {
			j := joint("rail_by_"+c.Mode.String(), 0)
			j.Prismatic, j.Command = true, c
			arm.Joints = append(arm.Joints, j)
		}
		m := New(r.config)
		r.work(m)
		text = scrape(m, "text/plain")
	})
	return strings.Replace(text, `goversion="`+runtime.Version()+`"`, `goversion="go"`, 1)
}

func TestPageIsAsRecorded(t *testing.T) {
	got := fixedPage(t)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the page is not %s (-want +got); -update writes it:\n%s", golden, diff)
	}
}

func TestNoSampleIsNaN(t *testing.T) {
	for line := range strings.Lines(fixedPage(t)) {
		if value := line[strings.LastIndexByte(line, ' ')+1:]; strings.Contains(value, "NaN") || strings.Contains(value, "Inf") {
			t.Errorf("%s", line)
		}
	}
}

func TestFamiliesPassTheLinter(t *testing.T) {
	r := newRobot(time.Now())
	registry := prometheus.NewPedanticRegistry() // which also compares each sample with its description
	registry.MustRegister(newCollector(r.config))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestPromtoolAcceptsThePage(t *testing.T) {
	promtool := grafanatest.NeedProgram(t, "promtool")
	r := newRobot(time.Now())
	r.config.Runtime = true
	m := New(r.config)
	r.work(m)
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(scrape(m, "text/plain"))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// A counter's family is named without _total in OpenMetrics, where two families of one name are an error.
func TestNamesAreUniqueInOpenMetrics(t *testing.T) {
	r := newRobot(time.Now())
	m := New(r.config)
	text := scrape(m, "application/openmetrics-text;version=1.0.0")
	if !strings.HasSuffix(text, "# EOF\n") {
		t.Fatalf("the page is not in OpenMetrics:\n%s", text)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "TYPE" {
			if seen[f[2]] {
				t.Errorf("two families are named %s", f[2])
			}
			seen[f[2]] = true
		}
	}
}

func TestHistogramsAreNativeForWhoAsks(t *testing.T) {
	r := newRobot(time.Now())
	m := New(r.config)
	r.work(m)
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range families {
		for _, s := range f.GetMetric() {
			if h := s.GetHistogram(); h != nil {
				found++
				if len(h.GetPositiveSpan()) == 0 || len(h.GetBucket()) == 0 {
					t.Errorf("%s has not both kinds of buckets: %v", f.GetName(), h)
				}
			}
		}
	}
	if want := len(r.config.Buses) + (1+int(stages))*len(r.config.Loops); found != want {
		t.Errorf("%d histograms, want %d", found, want)
	}
}

func series(t *testing.T, m *Metrics) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(scrape(m, "text/plain")) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// chain is the robot with all six joints on one line, and with two packs that tell all there is.
func chain(r *robot) {
	base, arm := &r.snapshot.Groups[0], &r.snapshot.Groups[1]
	base.Joints = append(base.Joints, arm.Joints...)
	r.snapshot.Groups = r.snapshot.Groups[:1]
	r.config.Loops, r.config.Buses = r.config.Loops[:1], r.config.Buses[:2]
	r.snapshot.Packs[1] = r.snapshot.Packs[0]
	r.snapshot.Packs[1].Name = "aux"
}

func TestSeriesStayInTheBudget(t *testing.T) {
	r := newRobot(time.Now())
	chain(r)
	r.config.Runtime = true
	const budget = 500
	if n := series(t, New(r.config)); n > budget {
		t.Errorf("2 packs and 6 joints make %d series, want at most %d", n, budget)
	} else {
		t.Logf("2 packs and 6 joints on one chain: %d series", n)
	}
	r = newRobot(time.Now())
	r.config.Runtime = true
	t.Logf("2 packs and 6 joints on two lines: %d series", series(t, New(r.config)))
}

// samples are the page's lines that begin so.
func samples(text, prefix string) []string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func expect(t *testing.T, text, prefix string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, samples(text, prefix)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", prefix, diff)
	}
}

func TestStalePackLeavesThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRobot(time.Now())
		m := New(r.config)
		expect(t, scrape(m, ""), `battery_up{battery="main"}`, `battery_up{battery="main"} 1`)
		time.Sleep(7 * time.Second) // the snapshot still says that the pack is measured
		text := scrape(m, "")
		expect(t, text, `battery_up`, `battery_up{battery="aux"} 0`, `battery_up{battery="main"} 0`)
		for _, gone := range []string{
			"battery_volts", "battery_current", "battery_power", "battery_cell", "battery_state_of_charge",
			"battery_charge_coulombs{", "battery_capacity", "battery_temperature", "battery_fault", "battery_model",
			"battery_time", "battery_info", "battery_cycles", "battery_internal", "battery_open",
		} {
			expect(t, text, gone)
		}
		expect(t, text, `battery_last_sample_timestamp_seconds{battery="main"}`,
			`battery_last_sample_timestamp_seconds{battery="main"} 9.4668479998e+08`)
		expect(t, text, `battery_status{battery="main",status="unknown"}`, `battery_status{battery="main",status="unknown"} 1`)
		expect(t, text, `battery_quality{battery="main",quality="stale"}`, `battery_quality{battery="main",quality="stale"} 1`)
		expect(t, text, `battery_polls_total{battery="main"}`, `battery_polls_total{battery="main"} 1000`)
		expect(t, text, `motor_up`, `motor_up{motor="arm"} 0`, `motor_up{motor="base"} 0`)
	})
}

func TestSilentControllerKeepsOnlyItsReasons(t *testing.T) {
	r := newRobot(time.Now())
	r.snapshot.Groups[0].Connected = false
	r.snapshot.Groups[0].Joints[0].Withheld = permit.DeviceLost
	text := scrape(New(r.config), "")
	expect(t, text, `motor_up{motor="base"}`, `motor_up{motor="base"} 0`)
	expect(t, text, `joint_position_radians{joint="left"}`)
	expect(t, text, `motor_fault{motor="base"`)
	expect(t, text, `joint_withheld{joint="left",reason="device_lost"}`, `joint_withheld{joint="left",reason="device_lost"} 1`)
	expect(t, text, `control_loop_cycles_total{loop="base"}`, `control_loop_cycles_total{loop="base"} 90000`)
}

func TestEveryConfiguredNameIsThereFromTheStart(t *testing.T) {
	r := newRobot(time.Now())
	r.snapshot = nil
	text := scrape(New(r.config), "")
	expect(t, text, "battery_up", `battery_up{battery="aux"} 0`, `battery_up{battery="main"} 0`)
	expect(t, text, "control_loop_overruns_total", `control_loop_overruns_total{loop="arm"} 0`, `control_loop_overruns_total{loop="base"} 0`)
	expect(t, text, "battery_last_sample")
	if n, want := len(samples(text, "bus_errors_total")), 3*len(link.Kinds()); n != want {
		t.Errorf("%d counters of bus errors, want %d", n, want)
	}
	if n, want := len(samples(text, "battery_samples_rejected_total")), 2*int(bms.RejectReasons); n != want {
		t.Errorf("%d counters of rejected samples, want %d", n, want)
	}
	expect(t, text, `safety_state{state="disarmed"}`, `safety_state{state="disarmed"} 1`)
}

func TestUnknownQuantitiesHaveNoSample(t *testing.T) {
	r := newRobot(time.Now())
	p := r.snapshot.Pack("main")
	p.Reading = bms.Unmeasured()
	p.Reading.Cells = []unit.Volts{3.8, unit.Unknown[unit.Volts]()}
	text := scrape(New(r.config), "")
	expect(t, text, `battery_volts{battery="main"}`)
	expect(t, text, `battery_power_watts{battery="main"}`)
	expect(t, text, `battery_cell_volts`, `battery_cell_volts{battery="main",cell="0"} 3.8`)
	expect(t, text, `battery_cell_spread_volts`)
}

func TestSafetyStateIsTheGravest(t *testing.T) {
	free := func() *model.Snapshot {
		return &model.Snapshot{Groups: []motor.State{{Connected: true, Joints: make([]motor.JointState, 2)}}}
	}
	for name, c := range map[string]struct {
		change func(*model.Snapshot)
		want   safetyState
	}{
		"all may move":          {func(*model.Snapshot) {}, armed},
		"a trajectory runs":     {func(s *model.Snapshot) { s.Groups[0].Trajectory.Active = true }, active},
		"one joint is withheld": {func(s *model.Snapshot) { s.Groups[0].Joints[1].Withheld = permit.BatteryEmpty }, derated},
		"all joints are withheld": {func(s *model.Snapshot) {
			s.Groups[0].Joints[0].Withheld = permit.BatteryEmpty
			s.Groups[0].Joints[1].Withheld = permit.BatteryEmpty
		}, safeStop},
		"no controller answers": {func(s *model.Snapshot) { s.Groups[0].Connected = false }, disarmed},
		"there are no joints":   {func(s *model.Snapshot) { s.Groups = nil }, disarmed},
		"e-stop, and nobody answers": {func(s *model.Snapshot) {
			s.Safety.EStop, s.Groups[0].Connected = true, false
		}, estop},
	} {
		s := free()
		c.change(s)
		if got := safetyOf(s); got != c.want {
			t.Errorf("%s: %s, want %s", name, safetyNames[got], safetyNames[c.want])
		}
	}
}

func TestDamagedIdentityDoesNotBreakThePage(t *testing.T) {
	r := newRobot(time.Now())
	r.snapshot.Packs[0].Identity.Serial = "\xff\xfe"
	text := scrape(New(r.config), "")
	if n := len(samples(text, `battery_info{battery="main"`)); n != 1 {
		t.Errorf("%d samples of battery_info, want 1:\n%s", n, text)
	}
}

func TestHundredScrapesAtOnce(t *testing.T) {
	r := newRobot(time.Now())
	m := New(r.config)
	want := series(t, m)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			r.work(m)
			if n := series(t, m); n != want {
				t.Errorf("%d series, want %d", n, want)
			}
		})
	}
	all.Wait()
}

func TestNamesThatAreNotConfiguredPanic(t *testing.T) {
	r := newRobot(time.Now())
	m := New(r.config)
	twice := r.config
	twice.Buses = append(twice.Buses[:2:2], twice.Buses[0])
	packs := r.config
	packs.Packs = append(packs.Packs[:2:2], packs.Packs[0])
	for name, f := range map[string]func(){
		"two packs of a name":  func() { New(packs) },
		"unknown loop":         func() { m.Wakeup("legs") },
		"unknown loop's stage": func() { m.Stage("legs", Read) },
		"unknown bus":          func() { m.Transaction("legs") },
		"two buses of a name":  func() { New(twice) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestObservationsDoNotAllocate(t *testing.T) {
	r := newRobot(time.Now())
	m := New(r.config)
	wakeup, stage := m.Wakeup("base"), m.Stage("base", Control)
	if n := testing.AllocsPerRun(1000, func() { wakeup(90e-6); stage(2e-6) }); n != 0 {
		t.Errorf("a wake-up and a stage allocate %v times, want 0", n)
	}
}

func BenchmarkScrape(b *testing.B) {
	r := newRobot(time.Now())
	m := New(r.config)
	r.work(m)
	var size bytes.Buffer
	for b.Loop() {
		// Readings must stay fresh: an empty page would be fast.
		r.snapshot.At = time.Now()
		for i := range r.snapshot.Packs {
			r.snapshot.Packs[i].At = r.snapshot.At
		}
		for i := range r.snapshot.Groups {
			r.snapshot.Groups[i].At = r.snapshot.At
		}
		size.Reset()
		size.WriteString(scrape(m, "application/openmetrics-text;version=1.0.0"))
	}
	b.ReportMetric(float64(size.Len()), "bytes/page")
}

func BenchmarkObserve(b *testing.B) {
	m := New(newRobot(time.Now()).config)
	wakeup := m.Wakeup("base")
	for b.Loop() {
		wakeup(90e-6)
	}
}
