package grafana_test

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hilgate/metrics/grafana"
	"hilgate/metrics/grafana/grafanatest"
)

// The rules of Grafana's dashboard-linter, in its strict mode, with two of our own: thresholds are not
// typed into panels, and a dashboard brings no identity of the Grafana that it was drawn in.

type (
	dashboard struct {
		ID            *int
		UID           string
		Title         string
		Editable      bool
		SchemaVersion int
		Timezone      string
		Refresh       string
		Tags          []string
		Panels        []panel
		Annotations   struct{ List []annotation }
		Templating    struct{ List []variable }
	}
	source struct{ Type, UID string }
	panel  struct {
		ID          int
		Type        string
		Title       string
		Description string
		Datasource  source
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			Datasource   source
			Expr         string
			LegendFormat string
			RefID        string
		}
		FieldConfig struct {
			Defaults struct {
				Unit       string
				Mappings   []any
				Thresholds struct{ Steps []any }
			}
		}
		Panels []panel
	}
	annotation struct {
		BuiltIn    int
		Name       string
		Datasource source
		Expr       string
	}
	variable struct {
		Name, Label, Type, AllValue string
		Multi, IncludeAll           bool
		Refresh                     int
		Datasource                  source
	}
)

// Units that the dashboards use, by Grafana's ids.
var units = []string{
	"percentunit", "volt", "amp", "watt", "ohm", "celsius", "s", "hertz", "short", "bytes", "Bps", "cps", "ops", "joule",
	"amph", "radian", "forceNm",
}

var ours = source{Type: "prometheus", UID: "${datasource}"}

// each runs f on every dashboard.
func each(t *testing.T, f func(t *testing.T, d *dashboard, file []byte)) {
	t.Helper()
	names, err := fs.Glob(grafana.Dashboards(), "*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no dashboards: %v", err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			file, err := fs.ReadFile(grafana.Dashboards(), name)
			if err != nil {
				t.Fatal(err)
			}
			var d dashboard
			if err := json.Unmarshal(file, &d); err != nil {
				t.Fatal(err)
			}
			f(t, &d, file)
		})
	}
}

func (d *dashboard) panels() []panel {
	var all []panel
	for _, p := range d.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

func TestDashboardsArePortable(t *testing.T) {
	uids := map[string]string{}
	each(t, func(t *testing.T, d *dashboard, file []byte) {
		if d.ID != nil || !strings.Contains(string(file), `"id": null`) {
			t.Error("id is not null")
		}
		if d.Editable {
			t.Error("editable is not false")
		}
		if d.SchemaVersion < 39 || d.SchemaVersion > 41 {
			t.Errorf("schemaVersion is %d, want 39 to 41", d.SchemaVersion)
		}
		if d.UID == "" || len(d.UID) > 40 || uids[d.UID] != "" {
			t.Errorf("uid %q is empty, too long, or that of %q too", d.UID, uids[d.UID])
		}
		uids[d.UID] = d.Title
		if d.Title == "" || d.Timezone != "browser" || d.Refresh != "5s" || !slices.Equal(d.Tags, []string{"robot", "battery"}) {
			t.Errorf("title %q, timezone %q, refresh %q, tags %q", d.Title, d.Timezone, d.Refresh, d.Tags)
		}
	})
}

func TestVariablesChooseSourceJobAndInstance(t *testing.T) {
	each(t, func(t *testing.T, d *dashboard, _ []byte) {
		sources := 0
		byName := map[string]variable{}
		for _, v := range d.Templating.List {
			byName[v.Name] = v
			if v.Type == "datasource" {
				sources++
			} else if v.Datasource != ours {
				t.Errorf("variable %s asks %v", v.Name, v.Datasource)
			}
		}
		if v := byName["datasource"]; sources != 1 || v.Type != "datasource" || v.Label != "Data source" {
			t.Errorf("%d variables of type datasource, the one of that name is %+v", sources, v)
		}
		for name, label := range map[string]string{"job": "Job", "instance": "Instance"} {
			v := byName[name]
			if v.Type != "query" || v.Label != label || !v.Multi || !v.IncludeAll || v.AllValue != ".+" || v.Refresh != 2 {
				t.Errorf("variable %s: %+v", name, v)
			}
		}
	})
}

func TestPanelsExplainThemselves(t *testing.T) {
	each(t, func(t *testing.T, d *dashboard, _ []byte) {
		ids := map[int]bool{}
		for _, p := range d.panels() {
			if ids[p.ID] {
				t.Errorf("panel %q: another one has the id %d", p.Title, p.ID)
			}
			ids[p.ID] = true
			if p.Title == "" {
				t.Errorf("panel %d has no title", p.ID)
			}
			if p.Type == "row" {
				continue
			}
			if !strings.HasSuffix(p.Description, ".") {
				t.Errorf("panel %q has no description", p.Title)
			}
			if p.Datasource != ours {
				t.Errorf("panel %q asks %v", p.Title, p.Datasource)
			}
			if len(p.Targets) == 0 {
				t.Errorf("panel %q asks nothing", p.Title)
			}
			if f := p.FieldConfig.Defaults; len(f.Mappings) == 0 && !slices.Contains(units, f.Unit) {
				t.Errorf("panel %q: unit %q", p.Title, f.Unit)
			}
			if n := len(p.FieldConfig.Defaults.Thresholds.Steps); n > 1 {
				t.Errorf("panel %q: %d thresholds are typed in: draw the metric that holds them", p.Title, n)
			}
			refs := map[string]bool{}
			for _, q := range p.Targets {
				if q.Datasource != ours || q.LegendFormat == "" || q.RefID == "" || refs[q.RefID] {
					t.Errorf("panel %q: target %+v", p.Title, q)
				}
				refs[q.RefID] = true
			}
		}
	})
}

func TestPanelsDoNotOverlap(t *testing.T) {
	each(t, func(t *testing.T, d *dashboard, _ []byte) {
		taken := map[[2]int]string{}
		for _, p := range d.Panels {
			g := p.GridPos
			if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
				t.Errorf("panel %q is off the grid: %+v", p.Title, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("panels %q and %q overlap", other, p.Title)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	})
}

// A state-set is drawn as states, not as lines between 0 and 1.
func TestStateSetsAreNotDrawnAsLines(t *testing.T) {
	states := []string{
		"battery_status", "battery_quality", "battery_fault", "joint_withheld", "joint_limit_active", "motor_fault",
		"safety_state", "gateway_mode", "control_loop_realtime",
	}
	each(t, func(t *testing.T, d *dashboard, _ []byte) {
		for _, p := range d.panels() {
			for _, q := range p.Targets {
				for _, s := range grafanatest.Selectors(q.Expr) {
					if slices.Contains(states, s.Metric) && p.Type != "state-timeline" && p.Type != "stat" {
						t.Errorf("panel %q draws %s as %s", p.Title, s.Metric, p.Type)
					}
				}
			}
		}
	})
}

var label = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

func TestQueriesSelectJobAndInstance(t *testing.T) {
	queries, err := grafana.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queries {
		expr := q.Expr
		if q.Use == grafana.Variable {
			m := label.FindStringSubmatch(expr)
			if m == nil {
				t.Errorf("%s, variable %s: %s is not label_values(selector, label)", q.Dashboard, q.Title, expr)
				continue
			}
			expr = m[1]
		}
		selectors := grafanatest.Selectors(expr)
		if len(selectors) == 0 {
			t.Errorf("%s, %q: %s selects nothing", q.Dashboard, q.Title, expr)
		}
		for _, s := range selectors {
			// The variables job and instance cannot select by themselves.
			for name, matcher := range map[string]string{"job": `job=~"$job"`, "instance": `instance=~"$instance"`} {
				own := q.Use == grafana.Variable && (q.Title == "job" || q.Title == name)
				if !own && !strings.Contains(s.Matchers, matcher) {
					t.Errorf("%s, %q: %s{%s} lacks %s", q.Dashboard, q.Title, s.Metric, s.Matchers, matcher)
				}
			}
			if s.Range != "" && s.Range != "$__rate_interval" {
				t.Errorf("%s, %q: the range of %s is %s", q.Dashboard, q.Title, s.Metric, s.Range)
			}
			if strings.HasSuffix(s.Metric, "_total") && !slices.Contains([]string{"rate", "irate", "increase"}, s.Function) {
				t.Errorf("%s, %q: the counter %s is not in a rate", q.Dashboard, q.Title, s.Metric)
			}
		}
	}
}

func FuzzQueries(f *testing.F) {
	f.Add([]byte(`{"title":"a","panels":[{"title":"b","targets":[{"expr":"up"}],"panels":[{}]}]}`))
	f.Add([]byte(`{"templating":{"list":[{"type":"query","query":{"query":"x"}},{"type":"custom","query":"a,b"}]}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		queries, err := grafana.Queries(file) // must not panic, whatever the file holds
		if err != nil {
			return
		}
		for _, q := range queries {
			grafanatest.Selectors(q.Expr)
		}
	})
}
