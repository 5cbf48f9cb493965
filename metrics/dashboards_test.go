package metrics

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hilgate/metrics/grafana"
	"hilgate/metrics/grafana/grafanatest"
	"hilgate/model"
)

// prometheusOwn are the metrics that Prometheus makes of each scrape.
var prometheusOwn = map[string]bool{"up": true, "scrape_duration_seconds": true}

func TestDashboardsAskForWhatThereIs(t *testing.T) {
	r := newRobot(time.Now())
	r.config.Runtime = true
	text := fixedPage(t) + scrape(New(r.config), "text/plain")
	there := map[string]bool{}
	for line := range strings.Lines(text) {
		if name := regexp.MustCompile(`^\w+`).FindString(line); name != "" {
			there[name] = true
		}
	}
	queries, err := grafana.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queries {
		expr := q.Expr
		if q.Use == grafana.Variable {
			expr = expr[strings.Index(expr, "(")+1 : strings.LastIndex(expr, ",")]
		}
		for _, s := range grafanatest.Selectors(expr) {
			if !there[s.Metric] && !prometheusOwn[s.Metric] {
				t.Errorf("%s, %q asks for %s, which is not exported", q.Dashboard, q.Title, s.Metric)
			}
		}
	}
}

func TestEveryPanelHasDataInPrometheus(t *testing.T) {
	r := newRobot(time.Now())
	r.config.Runtime = true
	var snapshot atomic.Pointer[model.Snapshot]
	var mqtt atomic.Pointer[MQTTStats]
	step := uint64(0)
	move := func() {
		step++
		stats := mqttAfter(step)
		snapshot.Store(snapshotAt(time.Now(), step))
		mqtt.Store(&stats)
	}
	move()
	r.config.Latest = snapshot.Load
	r.config.MQTT = func() MQTTStats { return *mqtt.Load() }
	m := New(r.config)
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	base := grafanatest.StartPrometheus(t, server.Listener.Addr().String())

	queries, err := grafana.All()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			move()
			r.work(m)
			<-tick.C
		}
	}()
	grafanatest.RequireData(ctx, t, base, queries)
	cancel()
	<-ended
}

func TestPromtoolAcceptsTheConfiguration(t *testing.T) {
	promtool := grafanatest.NeedProgram(t, "promtool")
	out, err := exec.Command(promtool, "check", "config", "../configs/prometheus.yml").CombinedOutput()
	if err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}

// Grafana is given the folder of the dashboards and the name of the data source that they choose first.
func TestGrafanaIsProvisioned(t *testing.T) {
	for file, want := range map[string][]string{
		"datasources/prometheus.yaml": {"apiVersion: 1", "type: prometheus", "url: http://127.0.0.1:9090", "timeInterval: 5s"},
		"dashboards/hilgate.yaml":     {"apiVersion: 1", "type: file", "path:", "allowUiUpdates: false"},
	} {
		text, err := os.ReadFile(filepath.Join("../configs/grafana/provisioning", file))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, line := range want {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s lacks %q", file, line)
			}
		}
	}
}
