package app

import (
	"context"
	"testing"

	"hilgate/configs"
	"hilgate/drivers/all"
	"hilgate/drivers/line"
	"hilgate/drivers/sim"
	"hilgate/motor"
)

// BenchmarkRoboClawCycleOnAPacedPTY is how many control cycles of two joints (encoders and speeds, or a slow
// value; duty to both) a second a pseudo-terminal at 115200 baud carries, and the share of what the wire could
// carry at the most: baud by ten bits a byte by the bytes of a cycle. The simulator answers at once.
func BenchmarkRoboClawCycleOnAPacedPTY(b *testing.B) {
	cfg, err := configs.Load("demo.yaml", configs.Demo(), all.Registry())
	if err != nil {
		b.Fatal(err)
	}
	w, err := newWorld(cfg, all.Registry(), cfg.Serves)
	if err != nil {
		b.Fatal(err)
	}
	const baud = 115200
	pty, err := sim.NewPTY(w.bench, w.find("drive").peer, sim.PTYConfig{Baud: baud})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- pty.Run(ctx) }()
	defer func() { cancel(); <-done }()
	port, err := line.OpenSerial("pty:"+pty.Path(), line.Options{Baud: baud})
	if err != nil {
		b.Fatal(err)
	}
	defer port.Close()
	g := &cfg.Motors[0]
	spec, _ := all.Registry().Lookup(g.Driver)
	group, err := spec.OpenGroup(port, &g.Params, g.Joints)
	if err != nil {
		b.Fatal(err)
	}
	if err := group.Arm(); err != nil {
		b.Fatal(err)
	}
	fb, cmd := make([]motor.Feedback, len(g.Joints)), make([]motor.Command, len(g.Joints))
	for i := range fb {
		fb[i] = motor.Unmeasured()
		cmd[i] = motor.Command{Mode: motor.ModeEffort, Effort: 0.5}
	}
	for b.Loop() {
		if err := group.Read(fb); err != nil {
			b.Fatal(err)
		}
		if err := group.Write(cmd); err != nil {
			b.Fatal(err)
		}
	}
	rate := float64(b.N) / b.Elapsed().Seconds()
	ceiling := baud / 10 / float64(all.Registry().CycleBytes(g.Driver, &g.Params, g.Joints))
	b.ReportMetric(rate, "Hz")
	b.ReportMetric(rate/ceiling, "of-ceiling")
}
