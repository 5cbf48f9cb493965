// Package app joins the parts: from a configuration to an object graph, from that to stages that start
// upwards and stop downwards.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"hilgate/bms"
	"hilgate/bms/poll"
	"hilgate/cmd/gateway/internal/web"
	"hilgate/configs"
	"hilgate/drivers"
	"hilgate/drivers/line"
	"hilgate/drivers/sim"
	"hilgate/metrics"
	"hilgate/model"
	"hilgate/model/link"
	"hilgate/model/permit"
	"hilgate/model/state"
	"hilgate/motor"
	"hilgate/motor/loop"
	"hilgate/mqtt"
	"hilgate/mqtt/broker"
)

// Build tells what this binary was built from.
type Build struct{ Version, Revision, Go string }

func (b Build) String() string {
	return fmt.Sprintf("hilgate %s (revision %.12s, %s)", b.Version, b.Revision, b.Go)
}

// Gateway is one robot: its buses, its state and its voices.
type Gateway struct {
	cfg   *configs.File
	reg   *drivers.Registry
	log   *slog.Logger
	build Build

	world   *world              // nil if nothing is simulated
	ports   map[string]*sim.PTY // by bus
	store   *state.Store
	pollers []*poll.Poller
	groups  []*group
	metrics *metrics.Metrics
	client  *mqtt.Client   // nil without MQTT
	broker  *broker.Broker // nil without one of our own
	http    net.Listener   // nil without HTTP
	orders  *orders
	start   time.Time

	counters map[string]*link.Counters // by bus
	newPacer func(period time.Duration) pacer
}

// New builds a gateway. It opens the addresses that it listens on, makes the pseudo terminals of simulated
// ports, and touches no hardware.
func New(cfg *configs.File, reg *drivers.Registry, build Build, log *slog.Logger) (_ *Gateway, err error) {
	g := &Gateway{
		cfg: cfg, reg: reg, log: log, build: build, start: time.Now(), counters: map[string]*link.Counters{},
		ports: map[string]*sim.PTY{}, newPacer: func(period time.Duration) pacer { return loop.NewKernel(period) },
	}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	if g.world, err = newWorld(cfg, reg, g.inside); err != nil {
		return nil, err
	}
	for i := range cfg.Buses {
		g.counters[cfg.Buses[i].Name] = new(link.Counters)
	}
	observations, samples := make(chan bms.Observation, 64), make(chan motor.Sample, 64)
	if err := g.buildGroups(); err != nil {
		return nil, err
	}
	if err := g.buildStore(observations, samples); err != nil {
		return nil, err
	}
	g.orders = &orders{gateway: g}
	if err := g.buildPollers(observations); err != nil {
		return nil, err
	}
	if err := g.buildMQTT(); err != nil {
		return nil, err
	}
	g.buildMetrics()
	g.buildLoops(samples)
	if g.cfg.HTTP.Listen != "" {
		if g.http, err = net.Listen("tcp", g.cfg.HTTP.Listen); err != nil {
			return nil, fmt.Errorf("http: %w", err)
		}
	}
	return g, nil
}

// inside reports whether this process simulates a device itself.
func (g *Gateway) inside(device string) bool {
	for i := range g.cfg.Batteries {
		if b := &g.cfg.Batteries[i]; b.Name == device {
			return g.cfg.Bus(b.Bus).Simulated()
		}
	}
	return g.cfg.Bus(g.cfg.Group(device).Bus).Simulated()
}

func (g *Gateway) options(b *configs.Bus) line.Options {
	return line.Options{Baud: b.Baud, Timeout: b.Timeout, Counters: g.counters[b.Name]}
}

// openI2C opens an I²C bus, or its simulation.
func (g *Gateway) openI2C(b *configs.Bus) (line.I2C, error) {
	o := g.options(b)
	if s := g.world.find(b.Name); s != nil {
		o.Bus = s.i2c()
	}
	return line.OpenI2C(b.Device, o)
}

// serialOpener makes what opens a serial port, or its simulation: in memory, or behind a pseudo terminal.
func (g *Gateway) serialOpener(b *configs.Bus) (func() (line.Port, error), error) {
	o := g.options(b)
	s := g.world.find(b.Name)
	switch {
	case s == nil:
		return func() (line.Port, error) { return line.OpenSerial(b.Device, o) }, nil
	case b.Device == "pty:" && runtime.GOOS == "linux": // elsewhere it is a line in memory
		p, err := sim.NewPTY(g.world.bench, s.peer, sim.PTYConfig{Baud: b.Baud, Turnaround: turnaround, Faults: s.injector})
		if err != nil {
			return nil, fmt.Errorf("bus %s: %w", b.Name, err)
		}
		g.ports[b.Name] = p
		return func() (line.Port, error) { return line.OpenSerial("pty:"+p.Path(), o) }, nil
	}
	o.Wire = s.wire(g.world.bench)
	return func() (line.Port, error) { return line.OpenSerial("sim:", o) }, nil
}

func (g *Gateway) buildStore(observations <-chan bms.Observation, samples <-chan motor.Sample) error {
	c := state.Config{
		Robot: g.cfg.Robot, Simulated: g.world != nil, Observations: observations, Samples: samples,
	}
	for i := range g.cfg.Batteries {
		b := &g.cfg.Batteries[i]
		entry := state.Battery{
			Name: b.Name, Driver: b.Driver, Fusion: b.Fusion, StaleAfter: b.Poll.StaleAfter, Feeds: b.Feeds,
		}
		if g.world != nil && g.world.packs[b.Name] != nil {
			pack := g.world.packs[b.Name]
			entry.SetCharging, entry.SetLoad = g.world.setCharging(pack), g.world.setLoad(pack)
		}
		c.Batteries = append(c.Batteries, entry)
	}
	for _, m := range g.groups {
		c.Groups = append(c.Groups, state.Group{
			Name: m.config.Name, Driver: m.config.Driver, Joints: m.config.Joints, Permits: m.permits,
			Period: m.period, Identity: func() (motor.Identity, bool) { return m.loop.Identity() },
		})
	}
	var err error
	g.store, err = state.New(c)
	return err
}

// buildPollers makes one poller a bus of packs.
func (g *Gateway) buildPollers(out chan<- bms.Observation) error {
	for i := range g.cfg.Buses {
		b := &g.cfg.Buses[i]
		var packs []*configs.Battery
		for k := range g.cfg.Batteries {
			if g.cfg.Batteries[k].Bus == b.Name {
				packs = append(packs, &g.cfg.Batteries[k])
			}
		}
		if len(packs) == 0 {
			continue
		}
		open, err := g.packOpener(b, packs)
		if err != nil {
			return err
		}
		c := poll.Config{Bus: b.Name, Out: out, Log: g.log, Open: open}
		for _, p := range packs {
			c.Packs = append(c.Packs, poll.Pack{Name: p.Name, Interval: p.Poll.Interval, Permit: new(permit.Word)})
		}
		g.pollers = append(g.pollers, poll.New(c))
	}
	return nil
}

// packOpener makes what opens a bus and makes its packs.
func (g *Gateway) packOpener(b *configs.Bus, packs []*configs.Battery) (func() ([]bms.Pack, io.Closer, error), error) {
	if !b.Serial {
		return func() ([]bms.Pack, io.Closer, error) {
			bus, err := g.openI2C(b)
			if err != nil {
				return nil, nil, err
			}
			all, err := g.makePacks(packs, func(s drivers.Spec, p *configs.Battery) (bms.Pack, error) {
				return s.OpenI2C(bus, &p.Params)
			})
			if err != nil {
				bus.Close()
			}
			return all, bus, err
		}, nil
	}
	open, err := g.serialOpener(b)
	if err != nil {
		return nil, err
	}
	return func() ([]bms.Pack, io.Closer, error) {
		port, err := open()
		if err != nil {
			return nil, nil, err
		}
		all, err := g.makePacks(packs, func(s drivers.Spec, p *configs.Battery) (bms.Pack, error) {
			return s.OpenSerial(port, &p.Params)
		})
		if err != nil {
			port.Close()
		}
		return all, port, err
	}, nil
}

func (g *Gateway) makePacks(packs []*configs.Battery, open func(drivers.Spec, *configs.Battery) (bms.Pack, error)) ([]bms.Pack, error) {
	var all []bms.Pack
	for _, p := range packs {
		spec, _ := g.reg.Lookup(p.Driver)
		pack, err := open(spec, p)
		if err != nil {
			return nil, fmt.Errorf("battery %s: %w", p.Name, err)
		}
		all = append(all, pack)
	}
	return all, nil
}

// readSecret reads the first line of a file that holds a password.
func readSecret(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if first = strings.TrimRight(first, "\r"); first == "" {
		return "", fmt.Errorf("%s: the first line is empty", file)
	}
	return first, nil
}

// HTTPAddr is where the pages are; empty if nowhere.
func (g *Gateway) HTTPAddr() string {
	if g.http == nil {
		return ""
	}
	return g.http.Addr().String()
}

// Broker is the address of the MQTT broker, the gateway's own or another; empty without MQTT.
func (g *Gateway) Broker() string {
	switch {
	case g.broker != nil:
		return g.broker.Addr().String()
	case g.client != nil:
		return g.cfg.MQTT.Broker
	}
	return ""
}

// Latest is the newest state of the robot.
func (g *Gateway) Latest() *model.Snapshot { return g.store.Latest() }

// Changed is closed when there is a newer state than now.
func (g *Gateway) Changed() <-chan struct{} { return g.store.Changed() }

// Ports lists the simulated serial ports that others can open too.
func (g *Gateway) Ports() []Served {
	var all []Served
	for name, p := range sorted(g.ports) {
		all = append(all, Served{Bus: name, Path: p.Path(), What: "serial port"})
	}
	return all
}

// Close gives back what New has opened, for a gateway that does not run.
func (g *Gateway) Close() {
	for _, p := range sorted(g.ports) {
		g.closed(p.Close())
	}
	if g.broker != nil {
		g.closed(g.broker.Close())
	}
	if g.http != nil {
		g.http.Close()
	}
}

// closed says what did not close; nothing can be done about it.
func (g *Gateway) closed(err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		g.log.Warn("does not close", "err", err)
	}
}

// Run runs the gateway until ctx ends, and stops it in order. Once hurry is closed, only motion is waited for.
func (g *Gateway) Run(ctx context.Context, hurry <-chan struct{}) error {
	defer g.Close()
	return runStages(ctx, hurry, g.log, g.stages())
}

func (g *Gateway) stages() []stage {
	var simulation, voices, sensing, motion, commands []part
	if g.broker != nil {
		simulation = append(simulation, part{"broker", g.broker.Run})
	}
	for _, p := range sorted(g.ports) {
		simulation = append(simulation, part{"serial port " + p.Path(), p.Run})
	}
	if g.client != nil {
		voices = append(voices, part{"mqtt", g.client.Run})
	}
	if g.http != nil {
		voices = append(voices, part{"http", func(ctx context.Context) error { return web.Serve(ctx, g.http, g.pages()) }})
	}
	for _, p := range g.pollers {
		sensing = append(sensing, part{"poller", p.Run})
	}
	for _, m := range g.groups {
		motion = append(motion, part{"motors " + m.config.Name, func(ctx context.Context) error {
			err := m.loop.Run(ctx, m.pacer)
			if errors.Is(err, loop.ErrMoving) { // they have no power, and coast: no failure of the gateway
				g.log.Warn("joints still coast", "motors", m.config.Name, "err", err)
				return nil
			}
			return err
		}})
	}
	commands = append(commands, part{"commands", g.orders.run})
	if g.cfg.Motion != nil {
		commands = append(commands, part{"motion", g.repeat})
	}
	return []stage{
		{name: "broker and simulated ports", parts: simulation, wait: time.Second},
		{name: "reporting", parts: voices, wait: 2 * time.Second},
		{name: "store", parts: []part{{"store", g.store.Run}}, wait: time.Second},
		{name: "sensing", parts: sensing, wait: 2 * time.Second},
		{name: "motion", parts: motion, wait: 3 * time.Second, always: true},
		{name: "commands", parts: commands, wait: time.Second},
	}
}
