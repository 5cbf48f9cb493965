// Package grafana holds the gateway's Grafana dashboards, as Grafana's classic JSON model (schema version
// 39 to 41), and takes them apart for whoever wants to check them. configs/grafana provisions them from
// this folder; Grafana's own import takes the same files.
//
// A panel asks Prometheus by one or more targets, each an expression in PromQL in which Grafana replaces
// its variables:
//
//	histogram_quantile(0.99, sum by (le) (rate(bus_transaction_duration_seconds_bucket{job=~"$job"}[$__rate_interval])))
package grafana

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
)

//go:embed *.json
var files embed.FS

// Dashboards holds one JSON file a dashboard.
func Dashboards() fs.FS { return files }

// Use says what a dashboard makes of a query.
type Use uint8

const (
	Panel      Use = iota // draws it; on a robot at work it has data
	Annotation            // marks when it has data: events, so that mostly there is none
	Variable              // offers its label values
)

// Query is one expression of a dashboard, with Grafana's variables still in it. That of a Variable is
// Grafana's label_values(selector, label).
type Query struct {
	Dashboard string // its title
	Title     string // of the panel, annotation or variable
	Use       Use
	Expr      string
}

type dashboard struct {
	Title       string
	Panels      []panel
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage // an object for a query, a string for other types
		}
	}
}

type panel struct {
	Title   string
	Targets []struct{ Expr string }
	Panels  []panel // of a collapsed row
}

// Queries lists every query of one dashboard.
func Queries(file []byte) ([]Query, error) {
	var d dashboard
	if err := json.Unmarshal(file, &d); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	var all []Query
	var walk func([]panel)
	walk = func(panels []panel) {
		for _, p := range panels {
			for _, t := range p.Targets {
				all = append(all, Query{d.Title, p.Title, Panel, t.Expr})
			}
			walk(p.Panels)
		}
	}
	walk(d.Panels)
	for _, a := range d.Annotations.List {
		if a.Expr != "" { // Grafana's own, of what people marked by hand, has none
			all = append(all, Query{d.Title, a.Name, Annotation, a.Expr})
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var q struct{ Query string }
		if err := json.Unmarshal(v.Query, &q); err != nil {
			return nil, fmt.Errorf("dashboard %s: variable %s: %w", d.Title, v.Name, err)
		}
		all = append(all, Query{d.Title, v.Name, Variable, q.Query})
	}
	return all, nil
}

// All lists every query of every dashboard.
func All() ([]Query, error) {
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		return nil, err
	}
	var all []Query
	for _, name := range names {
		file, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		queries, err := Queries(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, queries...)
	}
	return all, nil
}
