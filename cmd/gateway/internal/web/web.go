// Package web serves the gateway's HTTP: the state document, the metrics, and two questions that a
// supervisor asks. It reads snapshots and changes nothing.
//
//	/            links to the rest
//	/api/state   the latest snapshot as one JSON document (see state.go)
//	/metrics     Prometheus
//	/-/healthy   200 while the gateway's store works, else 503
//	/-/ready     200 once every device has answered, else 503 and one line for each that has not
package web

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"strings"
	"time"

	"hilgate/model"
)

// Config is what the pages are made of.
type Config struct {
	Version string
	Latest  func() *model.Snapshot
	Metrics http.Handler
	Healthy func() error    // nil if all is well
	Ready   func() []string // what is not ready; empty if all is
}

// Handler serves the pages.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, landing, html.EscapeString(c.Latest().Robot), html.EscapeString(c.Version))
	})
	mux.HandleFunc("GET /api/state", func(w http.ResponseWriter, _ *http.Request) {
		doc, err := AppendState(nil, c.Latest())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(doc) // a reader that went away is no fault of ours
	})
	mux.Handle("GET /metrics", c.Metrics)
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.Healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "healthy")
	})
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if missing := c.Ready(); len(missing) > 0 {
			http.Error(w, strings.Join(missing, "\n"), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return mux
}

const landing = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>%[1]s – hilgate</title>
<style>body{font:16px/1.5 system-ui,sans-serif;margin:3rem auto;max-width:38rem;padding:0 1rem}</style></head>
<body><h1>%[1]s</h1><p>hilgate %[2]s</p>
<ul><li><a href="/api/state">State</a> as JSON</li><li><a href="/metrics">Metrics</a> for Prometheus</li>
<li><a href="/-/healthy">Healthy</a>, <a href="/-/ready">ready</a></li></ul></body></html>
`

// farewell is what requests under way get when the gateway stops. A client that is slow, or has connected
// and asks nothing, must not hold the stop.
const farewell = 500 * time.Millisecond

// Serve answers on ln until ctx ends, and a farewell longer for requests under way.
func Serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		server.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
