package drivertest

import (
	"math"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"

	"hilgate/bms"
	"hilgate/drivers"
	"hilgate/drivers/sim"
	"hilgate/model/link"
	"hilgate/model/plant"
	"hilgate/model/unit"
	"hilgate/motor"
)

// rig is a world with one device, the wire to it, and a record of what was true of late.
type rig struct {
	o      Options
	spec   drivers.Spec
	params *yaml.Node

	world *plant.World
	bench *sim.Bench
	pack  *plant.Pack
	axes  []*plant.Joint

	faults *sim.Injector
	wire   *wire
	bus    i2c.Bus // of a pack on I²C
	port   *port   // of everything else

	recent [][]float64 // by axis: its positions in the last steps, a ring
	drive  float64     // the largest voltage on any winding since it was last set to 0
}

// remembered is how many steps of the world the record of positions holds: an answer that was late by two
// cycles and a port's timeout was still true within them.
const remembered = 250

func newRig(t *testing.T, spec drivers.Spec, o Options) *rig {
	t.Helper()
	start := time.Now()
	world := new(plant.World)
	r := newRigAt(t, spec, o, world, func() { world.AdvanceTo(time.Since(start)) })
	if spec.Kind != drivers.GroupOnSerial {
		r.pass(settle)
	}
	return r
}

// settle is how long a pack lies under its load before it is first read, so that averages over a minute, as
// many packs tell them, are what flows now.
const settle = 3 * time.Minute

func newRigAt(t *testing.T, spec drivers.Spec, o Options, world *plant.World, advance func()) *rig {
	t.Helper()
	r := &rig{
		o: o, spec: spec, params: parse(t, o.Params), world: world, bench: sim.NewBench(advance),
		faults: sim.NewInjector(sim.Faults{}), wire: newWire(),
	}
	r.pack = world.AddPack(o.Pack)
	for i := range o.Joints {
		j := &o.Joints[i]
		c := o.Joint
		c.Ratio, c.Efficiency = j.Transmission(), j.Efficiency
		c.TorqueConstant, c.WindingResistance = j.TorqueConstant, j.WindingResistance
		r.axes = append(r.axes, world.AddJoint(c, r.pack))
		r.recent = append(r.recent, []float64{0})
	}
	world.OnStep(r.record)
	switch spec.Kind {
	case drivers.PackOnI2C:
		target, err := spec.Target(r.params, r.pack)
		if err != nil {
			t.Fatal(err)
		}
		memory := sim.NewBus(r.bench, "drivertest")
		memory.Attach(spec.Address(r.params), target)
		r.bus = &bus{inner: r.faults.Bus(&tapped{memory, r.wire}), wire: r.wire, timeout: o.Timeout}
	case drivers.PackOnSerial:
		peer, err := spec.PackPeer(r.params, r.pack)
		if err != nil {
			t.Fatal(err)
		}
		r.port = newPort(r, peer)
	default:
		peer, err := spec.GroupPeer(r.params, o.Joints, r.axes)
		if err != nil {
			t.Fatal(err)
		}
		r.port = newPort(r, peer)
	}
	return r
}

func newPort(r *rig, peer sim.Peer) *port {
	line := sim.NewLine(r.bench, &tappedPeer{r.faults.Peer(peer), r.wire})
	return &port{line: line, wire: r.wire, baud: r.o.Baud, timeout: r.o.Timeout, counters: new(link.Counters)}
}

// record is called at each step of the world.
func (r *rig) record(time.Duration, time.Duration) {
	for i, a := range r.axes {
		if len(r.recent[i]) == remembered {
			r.recent[i] = append(r.recent[i][:0], r.recent[i][1:]...)
		}
		r.recent[i] = append(r.recent[i], float64(a.Position()))
		if v, on := a.Driven(); on {
			r.drive = max(r.drive, math.Abs(float64(v)))
		}
	}
}

// pass lets time go by, for the world too.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	r.bench.Do(func() {})
}

// driven reports whether any winding has a voltage now.
func (r *rig) driven() (yes bool) {
	r.bench.Do(func() {
		for _, a := range r.axes {
			if v, on := a.Driven(); on && v != 0 {
				yes = true
			}
		}
	})
	return yes
}

func (r *rig) openPack(t *testing.T) bms.Pack {
	t.Helper()
	var p bms.Pack
	var err error
	if r.bus != nil {
		p, err = r.spec.OpenI2C(r.bus, r.params)
	} else {
		p, err = r.spec.OpenSerial(r.port, r.params)
	}
	if err != nil {
		t.Fatalf("opening the pack: %v", err)
	}
	return p
}

func (r *rig) openGroup(t *testing.T) motor.Group {
	t.Helper()
	g, err := r.spec.OpenGroup(r.port, r.params, r.o.Joints)
	if err != nil {
		t.Fatalf("opening the group: %v", err)
	}
	return g
}

// near fails the test if a known value is not the true one. An unknown one is not compared.
func near[Q ~float64](t *testing.T, what string, got, want, tolerance Q) {
	t.Helper()
	if unit.Known(got) && !(math.Abs(float64(got-want)) <= float64(tolerance)) {
		t.Errorf("%s: driver says %v, plant has %v ± %v", what, got, want, tolerance)
	}
}

// clock is the bit clock of the suite's I²C buses.
const clock = 100 * physic.KiloHertz
