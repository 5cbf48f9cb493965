// Package grafanatest checks dashboards against a real Prometheus: it starts one that scrapes a gateway,
// and asks it what each panel would ask.
package grafanatest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilgate/metrics/grafana"
)

// NeedProgram finds a program. Where it is missing the test is skipped, or fails if HIL_TEST_ALL is 1.
func NeedProgram(t testing.TB, name string) (path string) {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("HIL_TEST_ALL") == "1":
		t.Fatalf("%s is not installed", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

const config = `global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: robot-gateway
  static_configs: [{targets: [%q]}]
`

// StartPrometheus starts a Prometheus on a free loopback port that scrapes target ("127.0.0.1:9743") each
// second as the job robot-gateway, and returns its URL once it is ready. It ends with the test.
func StartPrometheus(t testing.TB, target string) (base string) {
	t.Helper()
	program := NeedProgram(t, "prometheus")
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, target), 0o644); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}

	var log strings.Builder
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+listen, "--log.level=warn")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // its data is thrown away
		<-ended
	})
	base = "http://" + listen
	deadline := time.After(30 * time.Second)
	for {
		if response, err := http.Get(base + "/-/ready"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return base
			}
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("prometheus ended: %v\n%s", err, log.String())
		case <-deadline:
			t.Fatalf("prometheus at %s is not ready", base)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// variables are what Grafana would put into the queries of a gateway that is scraped each second.
var variables = strings.NewReplacer(
	"$__rate_interval", "10s", "$__interval", "5s", "$__range", "1m",
	"$job", ".+", "$instance", ".+", "$battery", ".+",
)

// RequireData asks the Prometheus at base for every panel's query, until each has data or ctx ends. Data is
// at least one series whose value is a number. What never had any is an error, as is an annotation's query
// that Prometheus does not understand.
func RequireData(ctx context.Context, t testing.TB, base string, queries []grafana.Query) {
	t.Helper()
	type failure struct {
		query grafana.Query
		why   error
	}
	var open []failure
	for _, q := range queries {
		switch q.Use {
		case grafana.Panel:
			open = append(open, failure{query: q})
		case grafana.Annotation:
			if _, err := instant(ctx, base, q.Expr); err != nil {
				t.Errorf("%s, annotation %q: %v", q.Dashboard, q.Title, err)
			}
		}
	}
	for {
		var left []failure
		for _, f := range open {
			found, err := instant(ctx, base, f.query.Expr)
			if found && err == nil {
				continue
			}
			if err == nil {
				err = fmt.Errorf("no data")
			}
			if ctx.Err() == nil || f.why == nil {
				f.why = err
			}
			left = append(left, f)
		}
		open = left
		if len(open) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			for _, f := range open {
				t.Errorf("%s, panel %q: %v from\n\t%s", f.query.Dashboard, f.query.Title, f.why, f.query.Expr)
			}
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// instant asks one query for now, and reports whether it has a number.
func instant(ctx context.Context, base, expr string) (found bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		base+"/api/v1/query?query="+url.QueryEscape(variables.Replace(expr)), nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return false, err
	}
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return false, fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return false, fmt.Errorf("%s", answer.Error)
	}
	for _, series := range answer.Data.Result {
		text, _ := series.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) {
			return true, nil
		}
	}
	return false, nil
}
