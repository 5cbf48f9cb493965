package app

import (
	"fmt"
	"io"
	"slices"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"

	"hilgate/configs"
	"hilgate/drivers"
	"hilgate/drivers/sim"
	"hilgate/model/plant"
	"hilgate/model/unit"
)

// world is the simulated half of a configuration: the plants, the simulators that stand on them, and the
// buses that these hang on. Time passes in it as on the clock.
type world struct {
	bench   *sim.Bench
	plants  plant.World
	packs   map[string]*plant.Pack  // by battery
	joints  map[string]*plant.Joint // by joint
	buses   []*simBus
	devices []truthful
}

// simBus is one bus with the simulators on it.
type simBus struct {
	config   *configs.Bus
	injector *sim.Injector
	bus      *sim.Bus // of an I²C bus
	peer     sim.Peer // of a serial line; nil if nothing hangs on it
}

// truthful is a simulator that tells its true state.
type truthful struct {
	name, driver string
	tell         func() any
}

// newWorld builds the simulators of the devices that are to be simulated; if there are none it is nil.
func newWorld(cfg *configs.File, reg *drivers.Registry, simulated func(device string) bool) (*world, error) {
	begin := time.Now()
	w := &world{packs: map[string]*plant.Pack{}, joints: map[string]*plant.Joint{}}
	w.bench = sim.NewBench(func() { w.plants.AdvanceTo(time.Since(begin)) })
	for i := range cfg.Batteries {
		b := &cfg.Batteries[i]
		if !simulated(b.Name) {
			continue
		}
		spec, _ := reg.Lookup(b.Driver) // configs has checked that it is there
		pack := w.plants.AddPack(b.Plant)
		pack.SetDraining(b.Model.StartDraining)
		w.packs[b.Name] = pack
		bus := w.on(cfg.Bus(b.Bus))
		if spec.Kind == drivers.PackOnI2C {
			target, err := spec.Target(&b.Params, pack)
			if err != nil {
				return nil, fmt.Errorf("battery %s: %w", b.Name, err)
			}
			bus.bus.Attach(spec.Address(&b.Params), target)
			w.tells(b.Name, b.Driver, target)
			continue
		}
		peer, err := spec.PackPeer(&b.Params, pack)
		if err != nil {
			return nil, fmt.Errorf("battery %s: %w", b.Name, err)
		}
		bus.add(peer)
		w.tells(b.Name, b.Driver, peer)
	}
	for i := range cfg.Motors {
		g := &cfg.Motors[i]
		if !simulated(g.Name) {
			continue
		}
		spec, _ := reg.Lookup(g.Driver)
		axes := make([]*plant.Joint, len(g.Joints))
		for k := range g.Joints {
			axes[k] = w.plants.AddJoint(g.Plants[k], w.feeding(cfg, g.Joints[k].Name))
			w.joints[g.Joints[k].Name] = axes[k]
		}
		peer, err := spec.GroupPeer(&g.Params, g.Joints, axes)
		if err != nil {
			return nil, fmt.Errorf("motors %s: %w", g.Name, err)
		}
		w.on(cfg.Bus(g.Bus)).add(peer)
		w.tells(g.Name, g.Driver, peer)
	}
	if len(w.buses) == 0 {
		return nil, nil
	}
	return w, nil
}

// feeding is the simulated pack that feeds a joint: the first that names it; nil if none does.
func (w *world) feeding(cfg *configs.File, joint string) *plant.Pack {
	for i := range cfg.Batteries {
		if slices.Contains(cfg.Batteries[i].Feeds, joint) {
			return w.packs[cfg.Batteries[i].Name]
		}
	}
	return nil
}

// on is the simulated bus of a configured one.
func (w *world) on(b *configs.Bus) *simBus {
	for _, s := range w.buses {
		if s.config == b {
			return s
		}
	}
	s := &simBus{config: b, injector: sim.NewInjector(b.Faults)}
	if !b.Serial {
		s.bus = sim.NewBus(w.bench, b.Name)
		if b.Speed > 0 {
			_ = s.bus.SetSpeed(physic.Frequency(b.Speed) * physic.Hertz) // a bus in memory takes any
		}
	}
	w.buses = append(w.buses, s)
	return s
}

// find is the simulated bus of a name; nil if there is none.
func (w *world) find(name string) *simBus {
	if w == nil {
		return nil
	}
	for _, s := range w.buses {
		if s.config.Name == name {
			return s
		}
	}
	return nil
}

func (w *world) tells(name, driver string, simulator any) {
	if t, ok := simulator.(interface{ Truth() any }); ok {
		w.devices = append(w.devices, truthful{name, driver, t.Truth})
	}
}

// add hangs a device on a serial line. Several share it as on one wire: each hears all, and the one that is
// addressed answers.
func (s *simBus) add(p sim.Peer) {
	if s.peer == nil {
		s.peer = p
		return
	}
	s.peer = party{s.peer, p}
}

type party [2]sim.Peer

func (all party) Feed(dst, in []byte) []byte {
	for _, p := range all {
		dst = p.Feed(dst, in)
	}
	return dst
}

// i2c is the bus as a driver opens it, with its faults.
func (s *simBus) i2c() i2c.BusCloser { return s.injector.Bus(s.bus) }

// wire is the line as a driver opens it, in memory, with its faults.
func (s *simBus) wire(b *sim.Bench) io.ReadWriteCloser {
	return sim.NewLine(b, s.injector.Peer(s.peer))
}

// setCharging connects or disconnects the charger of a pack.
func (w *world) setCharging(p *plant.Pack) func(bool) error {
	return func(on bool) error {
		w.bench.Do(func() { p.SetCharging(on) })
		return nil
	}
}

// setLoad switches what the consumers of a pack draw.
func (w *world) setLoad(p *plant.Pack) func(bool, unit.Watts) {
	return func(draining bool, extra unit.Watts) {
		w.bench.Do(func() {
			p.SetDraining(draining)
			p.SetExtraLoad(extra)
		})
	}
}
