package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// entry is one row of the catalogue in docs/metrics.md.
type entry struct{ Name, Kind, Labels, Unit string }

// units by how a name ends; the first that fits counts.
var units = []struct{ suffix, unit string }{
	{"_radians_per_second", "rad/s"}, {"_meters_per_second", "m/s"}, {"_newton_meters", "N·m"}, {"_newtons", "N"},
	{"_radians", "rad"}, {"_meters", "m"}, {"_timestamp_seconds", "s since 1970"}, {"_seconds", "s"}, {"_volts", "V"},
	{"_amperes", "A"}, {"_watts", "W"}, {"_coulombs", "C"}, {"_ohms", "Ω"}, {"_celsius", "°C"}, {"_ratio", "0 to 1"},
	{"_joules", "J"}, {"_bytes", "byte"}, {"", "–"},
}

func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, u := range units {
		if strings.HasSuffix(name, u.suffix) {
			return u.unit
		}
	}
	return ""
}

// isStateSet are the gauges of which each series is 0 or 1 and the last label names a state.
var isStateSet = map[string]bool{
	"battery_quality": true, "battery_status": true, "battery_fault": true, "joint_limit_active": true,
	"joint_withheld": true, "motor_fault": true, "control_loop_realtime": true, "safety_state": true,
	"gateway_mode": true,
}

// exported reads the catalogue off a page.
func exported(text string) []entry {
	var all []entry
	label := regexp.MustCompile(`(\w+)="`)
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); f[0] == "#" && f[1] == "TYPE" {
			all = append(all, entry{Name: f[2], Kind: f[3], Unit: unitOf(f[2])})
			last := &all[len(all)-1]
			switch {
			case strings.HasSuffix(f[2], "_info"):
				last.Kind = "info"
			case isStateSet[f[2]]:
				last.Kind = "state-set"
			}
		} else if f[0] != "#" && all[len(all)-1].Labels == "" {
			var names []string
			for _, m := range label.FindAllStringSubmatch(line, -1) {
				if m[1] != "le" {
					names = append(names, m[1])
				}
			}
			slices.Sort(names)
			all[len(all)-1].Labels = strings.Join(names, " ")
		}
	}
	return all
}

func TestEveryMetricIsDocumented(t *testing.T) {
	src, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []entry
	for line := range strings.Lines(string(src)) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "`", ""))
		}
		labels := strings.FieldsFunc(cells[3], func(r rune) bool { return strings.ContainsRune(" ,–", r) })
		slices.Sort(labels)
		documented = append(documented, entry{cells[1], cells[2], strings.Join(labels, " "), cells[4]})
		if len(cells[5]) < 10 {
			t.Errorf("%s: no meaning", cells[1])
		}
	}
	byName := func(a, b entry) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(documented, byName)
	want := exported(fixedPage(t))
	slices.SortFunc(want, byName)
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("docs/metrics.md (-exported +documented):\n%s", diff)
	}
}

// What the recorded page lacks would be tested by nobody.
func TestRecordedPageHasEveryFamily(t *testing.T) {
	text := fixedPage(t)
	name := regexp.MustCompile(`fqName: "(\w+)"`)
	r := newRobot(time.Now())
	descs := make(chan *prometheus.Desc, 1000)
	newCollector(r.config).Describe(descs)
	close(descs)
	for d := range descs {
		if n := name.FindStringSubmatch(d.String())[1]; !strings.Contains(text, "# TYPE "+n+" ") {
			t.Errorf("%s is not on the recorded page", n)
		}
	}
}
