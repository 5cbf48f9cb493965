// Package drivers tells what a driver is to the rest of the gateway: a Spec, made by one of the generic
// constructors below, so that each driver keeps its own type of parameters and everyone else sees one
// shape. A Registry is a value: tests make their own.
package drivers

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"go.yaml.in/yaml/v4"
	"periph.io/x/conn/v3/i2c"

	"hilgate/bms"
	"hilgate/drivers/sim"
	"hilgate/model/plant"
	"hilgate/motor"
)

// Kind says what a driver drives, and over what.
type Kind uint8

const (
	PackOnI2C Kind = iota
	PackOnSerial
	GroupOnSerial
)

// Serial reports whether the driver wants a serial port; else it wants an I²C bus.
func (k Kind) Serial() bool { return k != PackOnI2C }

// Spec describes one driver.
type Spec struct {
	Name string
	Kind Kind
	Doc  string // one line for lists

	check      func(params *yaml.Node) error
	defaults   func() any
	address    func(params *yaml.Node) uint16
	cycleBytes func(params *yaml.Node, joints []motor.Joint) int
	joint      func(j *motor.Joint) error

	openI2C    func(i2c.Bus, *yaml.Node) (bms.Pack, error)
	openSerial func(io.ReadWriter, *yaml.Node) (bms.Pack, error)
	openGroup  func(io.ReadWriter, *yaml.Node, []motor.Joint) (motor.Group, error)
	target     func(*yaml.Node, *plant.Pack) (sim.Target, error)
	packPeer   func(*yaml.Node, *plant.Pack) (sim.Peer, error)
	groupPeer  func(*yaml.Node, []motor.Joint, []*plant.Joint) (sim.Peer, error)
}

// Parameters of a driver may have more to say than their types do.
type (
	// Checker is a parameter struct whose values have bounds; the error names key, value and bound.
	Checker interface{ Check() error }
	// Addresser is a parameter struct of an I²C device: it tells the 7-bit address.
	Addresser interface{ BusAddress() uint16 }
)

// I2CPack makes the Spec of a pack on I²C. open makes the pack without touching the bus; target makes
// the same device from the other side.
func I2CPack[P Addresser](name, doc string, defaults P,
	open func(i2c.Bus, P) (bms.Pack, error), target func(P, *plant.Pack) sim.Target) Spec {
	s := base(name, doc, PackOnI2C, defaults)
	s.address = func(n *yaml.Node) uint16 {
		p, err := decode(n, defaults)
		if err != nil {
			return 0
		}
		return p.BusAddress()
	}
	s.openI2C = func(bus i2c.Bus, n *yaml.Node) (bms.Pack, error) {
		p, err := decode(n, defaults)
		if err != nil {
			return nil, err
		}
		return open(bus, p)
	}
	s.target = func(n *yaml.Node, pack *plant.Pack) (sim.Target, error) {
		p, err := decode(n, defaults)
		if err != nil {
			return nil, err
		}
		return target(p, pack), nil
	}
	return s
}

// SerialPack makes the Spec of a pack on a serial line.
func SerialPack[P any](name, doc string, defaults P,
	open func(io.ReadWriter, P) (bms.Pack, error), peer func(P, *plant.Pack) sim.Peer) Spec {
	s := base(name, doc, PackOnSerial, defaults)
	s.openSerial = func(port io.ReadWriter, n *yaml.Node) (bms.Pack, error) {
		p, err := decode(n, defaults)
		if err != nil {
			return nil, err
		}
		return open(port, p)
	}
	s.packPeer = func(n *yaml.Node, pack *plant.Pack) (sim.Peer, error) {
		p, err := decode(n, defaults)
		if err != nil {
			return nil, err
		}
		return peer(p, pack), nil
	}
	return s
}

// GroupDriver is what SerialGroup makes a Spec of.
type GroupDriver[P any] struct {
	Open func(io.ReadWriter, P, []motor.Joint) (motor.Group, error) // touches no port
	Peer func(P, []motor.Joint, []*plant.Joint) sim.Peer            // one plant joint a motor.Joint

	// CycleBytes is how many bytes one control cycle moves over the wire, both ways together.
	CycleBytes func(P, []motor.Joint) int
	// Joint checks what this driver needs of a joint; the error names key, value and bound.
	Joint func(*motor.Joint) error
}

// SerialGroup makes the Spec of a motor controller on a serial line.
func SerialGroup[P any](name, doc string, defaults P, d GroupDriver[P]) Spec {
	s := base(name, doc, GroupOnSerial, defaults)
	s.joint = d.Joint
	s.cycleBytes = func(n *yaml.Node, joints []motor.Joint) int {
		p, err := decode(n, defaults)
		if err != nil {
			return 0
		}
		return d.CycleBytes(p, joints)
	}
	s.openGroup = func(port io.ReadWriter, n *yaml.Node, joints []motor.Joint) (motor.Group, error) {
		p, err := decode(n, defaults)
		if err != nil {
			return nil, err
		}
		return d.Open(port, p, joints)
	}
	s.groupPeer = func(n *yaml.Node, joints []motor.Joint, axes []*plant.Joint) (sim.Peer, error) {
		p, err := decode(n, defaults)
		if err != nil {
			return nil, err
		}
		return d.Peer(p, joints, axes), nil
	}
	return s
}

func base[P any](name, doc string, kind Kind, defaults P) Spec {
	return Spec{
		Name: name, Kind: kind, Doc: doc,
		check:    func(n *yaml.Node) error { _, err := decode(n, defaults); return err },
		defaults: func() any { return defaults },
	}
}

// decode reads a driver's parameters strictly onto its defaults. A nil or empty node is the defaults.
// Its error is yaml's, with lines, joined with that of the parameters' own Check.
func decode[P any](n *yaml.Node, defaults P) (P, error) {
	p := defaults
	if n != nil && !n.IsZero() {
		if err := n.Load(&p, yaml.WithKnownFields()); err != nil {
			return p, err
		}
	}
	if c, ok := any(p).(Checker); ok {
		return p, c.Check()
	}
	return p, nil
}

// Defaults are the driver's parameters as they are where a configuration says nothing.
func (s *Spec) Defaults() any { return s.defaults() }

// Address is the 7-bit I²C address that the parameters name.
func (s *Spec) Address(params *yaml.Node) uint16 { return s.address(params) }

// OpenI2C makes the pack on a bus, without touching it.
func (s *Spec) OpenI2C(bus i2c.Bus, params *yaml.Node) (bms.Pack, error) {
	if s.openI2C == nil {
		return nil, fmt.Errorf("driver %s is not for an I²C bus", s.Name)
	}
	return s.openI2C(bus, params)
}

// OpenSerial makes the pack on a port, without touching it.
func (s *Spec) OpenSerial(port io.ReadWriter, params *yaml.Node) (bms.Pack, error) {
	if s.openSerial == nil {
		return nil, fmt.Errorf("driver %s is not for a battery on a serial port", s.Name)
	}
	return s.openSerial(port, params)
}

// OpenGroup makes the joints on a port, without touching it.
func (s *Spec) OpenGroup(port io.ReadWriter, params *yaml.Node, joints []motor.Joint) (motor.Group, error) {
	if s.openGroup == nil {
		return nil, fmt.Errorf("driver %s is not for motors", s.Name)
	}
	return s.openGroup(port, params, joints)
}

// Target makes the simulator of a pack on I²C.
func (s *Spec) Target(params *yaml.Node, p *plant.Pack) (sim.Target, error) {
	return s.target(params, p)
}

// PackPeer makes the simulator of a pack on a serial line.
func (s *Spec) PackPeer(params *yaml.Node, p *plant.Pack) (sim.Peer, error) {
	return s.packPeer(params, p)
}

// GroupPeer makes the simulator of a motor controller.
func (s *Spec) GroupPeer(params *yaml.Node, joints []motor.Joint, axes []*plant.Joint) (sim.Peer, error) {
	return s.groupPeer(params, joints, axes)
}

// Registry finds drivers by name.
type Registry struct{ specs map[string]Spec }

// NewRegistry makes a registry of these drivers; two of one name are a programming error and panic.
func NewRegistry(specs ...Spec) *Registry {
	r := &Registry{specs: map[string]Spec{}}
	for _, s := range specs {
		if _, twice := r.specs[s.Name]; twice {
			panic("two drivers are named " + s.Name)
		}
		r.specs[s.Name] = s
	}
	return r
}

// Names lists the drivers in alphabetical order.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.specs)) }

// Lookup finds a driver.
func (r *Registry) Lookup(name string) (Spec, bool) {
	s, ok := r.specs[name]
	return s, ok
}

// Check decodes a driver's parameters strictly. The error is yaml's *LoadErrors, or the bound that a
// value breaks.
func (r *Registry) Check(name string, params *yaml.Node) error {
	s, ok := r.specs[name]
	if !ok {
		return fmt.Errorf("no driver is named %q: there are %v", name, r.Names())
	}
	return s.check(params)
}

// CheckJoint checks what a driver needs of one joint.
func (r *Registry) CheckJoint(name string, j *motor.Joint) error {
	if s, ok := r.specs[name]; ok && s.joint != nil {
		return s.joint(j)
	}
	return nil
}

// CycleBytes is how many bytes one control cycle of the driver moves, both ways together; 0 if the driver
// has no cycle.
func (r *Registry) CycleBytes(name string, params *yaml.Node, joints []motor.Joint) int {
	if s, ok := r.specs[name]; ok && s.cycleBytes != nil {
		return s.cycleBytes(params, joints)
	}
	return 0
}

// Kind is what the driver drives; ok is false if there is none of that name.
func (r *Registry) Kind(name string) (k Kind, ok bool) {
	s, ok := r.specs[name]
	return s.Kind, ok
}
