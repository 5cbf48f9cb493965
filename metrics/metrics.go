// Package metrics is the gateway's page for Prometheus.
//
// Three sources feed it, each in the way that suits it:
//
//   - the state of the robot: constant samples made at scrape time from the latest snapshot, so that a
//     scrape never touches a bus, and a pack that went silent leaves the page instead of freezing on it;
//   - the gateway's own counters (buses, loops, MQTT), read at scrape time from where they are kept;
//   - durations: histograms that the loops and buses write, through functions resolved once.
//
// Every unit is the one that the name ends in; ratios run from 0 to 1; a current or power is negative
// while a battery discharges; a quantity that is not known has no sample, never NaN and never 0. Label
// values come from the configuration or from closed lists, with two exceptions: battery_info and
// motor_info carry what the devices say of themselves. The names are an API: docs/metrics.md lists them.
package metrics

import (
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"hilgate/model"
	"hilgate/model/link"
	"hilgate/model/unit"
)

// Config says what the page is made of. The functions are called at each scrape, from several goroutines
// at once; they must not block.
type Config struct {
	Version, Revision string // of the gateway, as built

	// Latest is the newest snapshot; nil before there is one.
	Latest func() *model.Snapshot

	Packs []Pack
	Loops []Loop
	Buses []Bus

	// MQTT tells what the MQTT client has counted; nil if there is no client.
	MQTT func() MQTTStats

	// Runtime adds the go_ and process_ metrics of the Go runtime and the process.
	Runtime bool
}

// Pack is one configured battery.
type Pack struct {
	Name          string
	Low, Critical unit.Ratio    // the thresholds of its state of charge
	StaleAfter    time.Duration // readings older than this leave the page; 0 leaves that to the snapshot
}

// Loop is one configured control loop.
type Loop struct {
	Name   string // as the motor.State that it makes is named
	Period time.Duration

	// Realtime tells what the loop's pacer was granted; nil is nothing.
	Realtime func() Realtime
}

// Realtime is what the operating system granted a control loop against late wake-ups.
type Realtime struct {
	FIFO      bool // a SCHED_FIFO priority
	Mlock     bool // memory locked against paging
	Nanosleep bool // waits by clock_nanosleep on an absolute instant
}

// Bus is one configured bus or serial line.
type Bus struct {
	Name     string
	Device   string // its address in the configuration: "/dev/i2c-1", "sim:"
	Driver   string // the driver of the devices on it
	Counters *link.Counters
}

// Metrics is the page. It may be used from several goroutines.
type Metrics struct {
	registry *prometheus.Registry
	wakeup   map[string]func(float64) // by loop
	stages   map[string]*[stages]func(float64)
	took     map[string]func(float64) // by bus
}

// Classic bounds of the histograms, in seconds. A loop's stage can be as short as a computation and as
// long as its period; one transaction takes from a byte on a fast I²C bus to a serial line's timeout.
var (
	loopBuckets = []float64{10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3}
	busBuckets  = []float64{200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 50e-3, 200e-3}
)

// Stage is a part of a control loop's tick.
type Stage uint8

const (
	Read    Stage = iota // the controller's feedback, over the wire
	Control              // trajectory, PIDs and gate
	Write                // the commands, over the wire
	stages
)

var stageNames = [stages]string{"read", "control", "write"}

// New makes the page. Two packs, loops or buses of one name are a programming error and panic, as is a
// bus without counters.
func New(c Config) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		wakeup:   map[string]func(float64){},
		stages:   map[string]*[stages]func(float64){},
		took:     map[string]func(float64){},
	}
	wakeup := histogram("control_loop_wakeup_latency_seconds",
		"How late the loop woke up after the instant that its period sets.", loopBuckets, "loop")
	stage := histogram("control_loop_stage_duration_seconds",
		"How long a stage of the loop's tick took.", loopBuckets, "loop", "stage")
	took := histogram("bus_transaction_duration_seconds",
		"How long a transaction took; each retry is one of its own.", busBuckets, "bus", "device")
	packs := map[string]bool{}
	for _, p := range c.Packs {
		must(!packs[p.Name], "two packs are named ", p.Name)
		packs[p.Name] = true
	}
	for _, l := range c.Loops {
		must(m.wakeup[l.Name] == nil, "two loops are named ", l.Name)
		m.wakeup[l.Name] = wakeup.WithLabelValues(l.Name).Observe
		m.stages[l.Name] = new([stages]func(float64))
		for i, name := range stageNames {
			m.stages[l.Name][i] = stage.WithLabelValues(l.Name, name).Observe
		}
	}
	for _, b := range c.Buses {
		must(m.took[b.Name] == nil, "two buses are named ", b.Name)
		must(b.Counters != nil, "there are no counters of bus ", b.Name)
		m.took[b.Name] = took.WithLabelValues(b.Name, b.Device).Observe
	}
	m.registry.MustRegister(newCollector(c), wakeup, stage, took)
	if c.Runtime {
		m.registry.MustRegister(
			// Two classes of memory instead of MemStats' two dozen series.
			collectors.NewGoCollector(
				collectors.WithGoCollectorMemStatsMetricsDisabled(),
				collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{
					Matcher: regexp.MustCompile(`^/memory/classes/(heap/objects|total):bytes$`),
				}),
			),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		)
	}
	return m
}

func must(ok bool, text, name string) {
	if !ok {
		panic("metrics: " + text + name)
	}
}

// histogram is a classic histogram for the text formats and a native one for whoever negotiates protobuf.
// A factor of 1.1 keeps a quantile within 5 %; 160 buckets then span six decades.
func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

// Wakeup is where the loop of that name reports how many seconds late it woke up.
func (m *Metrics) Wakeup(loop string) func(seconds float64) {
	must(m.wakeup[loop] != nil, "no loop is named ", loop)
	return m.wakeup[loop]
}

// Stage is where the loop of that name reports how many seconds a stage of its tick took.
func (m *Metrics) Stage(loop string, s Stage) func(seconds float64) {
	must(m.stages[loop] != nil, "no loop is named ", loop)
	return m.stages[loop][s]
}

// Transaction is where the bus of that name reports how many seconds a transaction took: it belongs into
// the Took of the bus's counters.
func (m *Metrics) Transaction(bus string) func(seconds float64) {
	must(m.took[bus] != nil, "no bus is named ", bus)
	return m.took[bus]
}

// Handler serves the page, in the format that the client asks for: the classic text format, OpenMetrics,
// or protobuf with native histograms. What cannot be collected is left out, and the rest is served. The page
// is not compressed: that would cost more processor time than making it, beside a control loop that needs it.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry: m.registry, EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError,
		DisableCompression: true,
	})
}

// Gatherer gives the page's families to a program.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }
