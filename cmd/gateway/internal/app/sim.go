package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"periph.io/x/conn/v3/physic"

	"hilgate/cmd/gateway/internal/web"
	"hilgate/configs"
	"hilgate/drivers"
	"hilgate/drivers/sim"
)

// Sim is the simulators of a configuration alone, at the addresses that a gateway opens, for other people's
// software.
type Sim struct {
	world *world
	log   *slog.Logger
	nodes []*sim.Node
	ports map[string]*sim.PTY // by bus
	http  net.Listener
}

// ErrNotServed says that a configuration has nothing that can be served to other programs.
var ErrNotServed = errors.New("nothing to serve")

// Served is one address at which a simulator can be opened.
type Served struct{ Bus, Path, What string }

// NewSim makes the device nodes; they answer once it runs. listen is the address of the truth page, empty
// for none.
func NewSim(cfg *configs.File, reg *drivers.Registry, listen string, log *slog.Logger) (_ *Sim, err error) {
	w, err := newWorld(cfg, reg, cfg.Serves)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return nil, fmt.Errorf("%w: simulate names no device", ErrNotServed)
	}
	s := &Sim{world: w, log: log, ports: map[string]*sim.PTY{}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for _, b := range w.buses {
		switch {
		case b.config.Simulated():
			return nil, fmt.Errorf("%w: bus %s is at %s, which is inside one process: want a path", ErrNotServed, b.config.Name, b.config.Device)
		case b.config.Serial:
			p, err := sim.NewPTY(w.bench, b.peer, sim.PTYConfig{
				Link: b.config.Device, Baud: b.config.Baud, Turnaround: turnaround, Faults: b.injector,
			})
			if err != nil {
				return nil, fmt.Errorf("bus %s: %w", b.config.Name, err)
			}
			s.ports[b.config.Name] = p
		default:
			n, err := sim.NewNode(b.config.Device, b.i2c(), sim.NodeOptions{Clock: physic.Frequency(b.config.Speed) * physic.Hertz})
			if err != nil {
				return nil, fmt.Errorf("bus %s: %w", b.config.Name, err)
			}
			s.nodes = append(s.nodes, n)
		}
	}
	if listen != "" {
		if s.http, err = net.Listen("tcp", listen); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// turnaround is how long a simulated motor controller takes to begin its answer.
const turnaround = 500 * time.Microsecond

// Addresses lists where the simulators can be opened.
func (s *Sim) Addresses() []Served {
	var all []Served
	for _, b := range s.world.buses {
		what := fmt.Sprintf("I²C bus at %d kHz", b.config.Speed/1000)
		if b.config.Serial {
			what = fmt.Sprintf("serial port at %d baud", b.config.Baud)
		}
		all = append(all, Served{b.config.Name, b.config.Device, what})
	}
	return all
}

// Truth is the URL of the truth page; empty if there is none.
func (s *Sim) Truth() string {
	if s.http == nil {
		return ""
	}
	return "http://" + s.http.Addr().String() + "/truth"
}

// Run serves until ctx ends, and takes the device nodes away.
func (s *Sim) Run(ctx context.Context, hurry <-chan struct{}) error {
	defer s.Close()
	serving := stage{name: "simulators", wait: 2 * time.Second}
	for _, n := range s.nodes {
		serving.parts = append(serving.parts, part{"I²C node " + n.Path(), n.Serve})
	}
	for _, p := range sorted(s.ports) {
		serving.parts = append(serving.parts, part{"serial port " + p.Path(), p.Run})
	}
	if s.http != nil {
		serving.parts = append(serving.parts, part{"http", func(ctx context.Context) error {
			return web.Serve(ctx, s.http, s.world.truthHandler(s.ports))
		}})
	}
	return runStages(ctx, hurry, s.log, []stage{serving})
}

// Close takes the device nodes away.
func (s *Sim) Close() {
	for _, n := range s.nodes {
		s.closed(n.Close())
	}
	for _, p := range sorted(s.ports) {
		s.closed(p.Close())
	}
	if s.http != nil {
		s.http.Close()
	}
}

// closed says what did not close: a device node that stays behind is in the way of the next one.
func (s *Sim) closed(err error) {
	if err != nil {
		s.log.Warn("does not close", "err", err)
	}
}
