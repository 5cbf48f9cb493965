package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilgate/model"
	"hilgate/model/unit"
)

// collector makes every sample that is not a histogram, anew at each scrape.
type collector struct {
	config  Config
	descs   []*prometheus.Desc
	battery batteryFamilies
	motion  motionFamilies
	loop    loopFamilies
	bus     busFamilies
	mqtt    mqttFamilies
	safety  safetyFamilies
	gateway gatewayFamilies
}

func newCollector(config Config) *collector {
	var c catalogue
	return &collector{
		config:  config,
		battery: newBatteryFamilies(&c),
		motion:  newMotionFamilies(&c),
		loop:    newLoopFamilies(&c),
		bus:     newBusFamilies(&c),
		mqtt:    newMQTTFamilies(&c),
		safety:  newSafetyFamilies(&c),
		gateway: newGatewayFamilies(&c),
		descs:   c.descs,
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	start := time.Now()
	p := page(ch)
	s := c.config.Latest()
	if s == nil {
		s = &model.Snapshot{}
	}
	for i := range c.config.Packs {
		config := &c.config.Packs[i]
		c.battery.collect(p, start, config, s.Pack(config.Name))
	}
	for i := range s.Groups {
		g := &s.Groups[i]
		c.motion.collect(p, start, c.period(g.Name), g)
	}
	for i := range c.config.Loops {
		c.loop.collect(p, &c.config.Loops[i], s)
	}
	for i := range c.config.Buses {
		c.bus.collect(p, &c.config.Buses[i])
	}
	if c.config.MQTT != nil {
		c.mqtt.collect(p, c.config.MQTT())
	}
	c.safety.collect(p, s)
	c.gateway.collect(p, &c.config, s)
	p.put(c.gateway.scrape, time.Since(start).Seconds())
}

// period is that of the loop which makes the state of that name; 0 if none is configured.
func (c *collector) period(loop string) time.Duration {
	for i := range c.config.Loops {
		if c.config.Loops[i].Name == loop {
			return c.config.Loops[i].Period
		}
	}
	return 0
}

// gatewayFamilies tell of the process.
type gatewayFamilies struct {
	build, mode, snapshots, snapshotAt, scrape family
}

func newGatewayFamilies(c *catalogue) gatewayFamilies {
	return gatewayFamilies{
		build: c.gauge("gateway_build_info", "The build that runs; always 1.", "version", "revision", "goversion"),
		mode: c.gauge("gateway_mode", "Whether the gateway drives real devices only (real), "+
			"or at least one simulator (mock).", "mode"),
		snapshots: c.counter("gateway_snapshots_total", "Snapshots of the robot that were published."),
		snapshotAt: c.gauge("gateway_snapshot_timestamp_seconds",
			"When the snapshot that this page tells of was made, Unix time."),
		scrape: c.gauge("gateway_scrape_duration_seconds",
			"How long it took to make this page's samples from the snapshot and the counters."),
	}
}

var modeNames = []string{"real", "mock"}

func (f *gatewayFamilies) collect(p page, c *Config, s *model.Snapshot) {
	p.put(f.build, 1, c.Version, c.Revision, runtime.Version())
	mode := 0
	if s.Simulated {
		mode = 1
	}
	p.one(f.mode, modeNames, mode)
	p.put(f.snapshots, float64(s.Seq))
	p.put(f.snapshotAt, instant(s.At))
}

// instant is a time as Prometheus has it, in seconds since 1970; NaN for one that never was.
func instant(t time.Time) float64 {
	if t.IsZero() {
		return unit.Unknown[float64]()
	}
	return float64(t.UnixNano()) / float64(time.Second)
}
