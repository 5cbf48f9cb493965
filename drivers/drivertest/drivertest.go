// Package drivertest is the suite that every driver passes, over the interface of a real bus, against its
// own simulator and the physics behind it.
//
// It runs in virtual time (testing/synctest): bytes take as long as on a wire, a silent port blocks for its
// timeout, a driver that waits lets the world go on, and an hour costs a moment. The wire between driver
// and simulator is then made to lose, damage, delay and repeat bytes, and to come and go. Whatever happens,
// a value that the driver gives without an error must be the plant's, an error must be one of package
// link's kinds, and no call may block for longer than its bound.
package drivertest

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v4"

	"hilgate/drivers"
	"hilgate/model/link"
	"hilgate/model/plant"
	"hilgate/model/unit"
	"hilgate/motor"
)

// Options fit the suite to a driver. The zero value of a field is the default that its comment names.
type Options struct {
	Params string        // the driver's parameters as YAML; its defaults
	Joints []motor.Joint // of a group, at least one

	Pack  plant.PackConfig  // plant.DefaultPack, with a load of 20 W
	Joint plant.JointConfig // plant.DefaultJoint; transmission and motor come from Joints
	// Motion is what a joint is told when it shall move forwards: 0.3 N·m, 2 rad/s or 1 rad, by the joint's
	// own mode.
	Motion motor.Command

	Baud    int           // of a serial port: 115200
	Timeout time.Duration // the port's read timeout, until the driver sets one: 50 ms
	Period  time.Duration // between two reads: 250 ms for a pack, 10 ms for a group

	Warm     time.Duration // after which a driver has told all that it tells: 15 s for a pack, 2 s for a group
	Bound    time.Duration // the longest that one call may block on a dead wire: 1 s
	Return   time.Duration // after which a device that came back is read again: 15 s
	Forget   time.Duration // after which a silent pack's values are NaN: 30 s
	Failsafe time.Duration // after which the controller has stopped its motors without a host: 1 s

	Tolerance Tolerance

	// Each says why a part of the suite does not apply: "" is that it does.
	NoChecksum string // damaged bytes can pass for good ones
	NoFailsafe string // the controller has no timeout of its own
}

// Tolerance is how far a value may be from the plant's. Zero fields are the default in their comment.
type Tolerance struct {
	Voltage     unit.Volts       // 0.15 V
	Current     unit.Amperes     // 0.1 A
	Temperature unit.Celsius     // 1.5 °C
	SoC         unit.Ratio       // 0.02
	Charge      unit.AmpereHours // 0.05 Ah
	Position    unit.Position    // 0.02 rad or m
	Velocity    unit.Velocity    // 0.3 rad/s or m/s, at steady speed
}

func or[T comparable](v, byDefault T) T {
	var zero T
	if v == zero {
		return byDefault
	}
	return v
}

func (o Options) withDefaults(pack bool) Options {
	if o.Pack == (plant.PackConfig{}) {
		o.Pack = plant.DefaultPack()
		o.Pack.Load = 20
	}
	o.Joint = or(o.Joint, plant.DefaultJoint())
	o.Baud = or(o.Baud, 115200)
	o.Timeout = or(o.Timeout, 50*time.Millisecond)
	period, warm := 10*time.Millisecond, 2*time.Second
	if pack {
		period, warm = 250*time.Millisecond, 15*time.Second
	}
	o.Period = or(o.Period, period)
	o.Warm = or(o.Warm, warm)
	o.Bound = or(o.Bound, time.Second)
	o.Return = or(o.Return, 15*time.Second)
	o.Forget = or(o.Forget, 30*time.Second)
	o.Failsafe = or(o.Failsafe, time.Second)
	t := &o.Tolerance
	t.Voltage = or(t.Voltage, 0.15)
	t.Current = or(t.Current, 0.1)
	t.Temperature = or(t.Temperature, 1.5)
	t.SoC = or(t.SoC, 0.02)
	t.Charge = or(t.Charge, 0.05)
	t.Position = or(t.Position, 0.02)
	t.Velocity = or(t.Velocity, 0.3)
	return o
}

// Test runs the whole suite for the driver's kind.
func Test(t *testing.T, spec drivers.Spec, o Options) {
	t.Helper()
	o = o.withDefaults(spec.Kind != drivers.GroupOnSerial)
	if spec.Kind == drivers.GroupOnSerial {
		if len(o.Joints) == 0 {
			t.Fatal("drivertest: a group needs Options.Joints")
		}
		testGroup(t, spec, o)
		return
	}
	testPack(t, spec, o)
}

// inBubble runs one fact about the driver on a fresh bench, in virtual time.
func inBubble(t *testing.T, name string, spec drivers.Spec, o Options, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, newRig(t, spec, o)) })
	})
}

func parse(t *testing.T, params string) *yaml.Node {
	t.Helper()
	n := new(yaml.Node)
	if params == "" {
		return n
	}
	if err := yaml.Unmarshal([]byte(params), n); err != nil {
		t.Fatalf("drivertest: Options.Params: %v", err)
	}
	if n.Kind == yaml.DocumentNode {
		return n.Content[0]
	}
	return n
}

// wantKind fails the test unless err is one of package link's kinds.
func wantKind(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one", what)
		return
	}
	for _, k := range link.Kinds() {
		if errors.Is(err, k) {
			return
		}
	}
	t.Errorf("%s: %v is, by errors.Is, none of package link's kinds", what, err)
}

// bounded fails the test if f blocks for longer than the bound.
func (r *rig) bounded(t *testing.T, what string, f func() error) error {
	t.Helper()
	start := time.Now()
	err := f()
	if took := time.Since(start); took > r.o.Bound {
		t.Errorf("%s blocked for %v, want at most %v", what, took, r.o.Bound)
	}
	return err
}

var _ io.ReadWriter = (*port)(nil)

func background() context.Context { return context.Background() }
