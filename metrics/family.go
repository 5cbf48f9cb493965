package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"hilgate/model/unit"
)

// family is one name on the page.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// catalogue makes families and remembers them, so that each is declared in one place.
type catalogue struct{ descs []*prometheus.Desc }

func (c *catalogue) gauge(name, help string, labels ...string) family {
	return c.add(prometheus.GaugeValue, name, help, labels)
}

func (c *catalogue) counter(name, help string, labels ...string) family {
	return c.add(prometheus.CounterValue, name, help, labels)
}

func (c *catalogue) add(kind prometheus.ValueType, name, help string, labels []string) family {
	f := family{desc: prometheus.NewDesc(name, help, labels, nil), kind: kind}
	c.descs = append(c.descs, f.desc)
	return f
}

// page takes the samples of one scrape.
type page chan<- prometheus.Metric

// put adds one sample. A value that is not finite is not known, and adds none.
func (p page) put(f family, value float64, labels ...string) {
	if unit.Finite(value) {
		p <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
	}
}

// flag adds 1 for true and 0 for false.
func (p page) flag(f family, on bool, labels ...string) {
	value := 0.0
	if on {
		value = 1
	}
	p.put(f, value, labels...)
}

// bits adds a state-set: one sample a name, 1 where the bit of that place is set. The name is the last
// label.
func (p page) bits(f family, names []string, set uint32, labels ...string) {
	labels = append(labels, "")
	for i, name := range names {
		labels[len(labels)-1] = name
		p.flag(f, set&(1<<i) != 0, labels...)
	}
}

// one adds a state-set of which exactly one state is on.
func (p page) one(f family, names []string, on int, labels ...string) {
	p.bits(f, names, 1<<on, labels...)
}

// told is a label value that came from a device. Prometheus takes UTF-8 only.
func told(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
