package roboclaw

import (
	"context"
	"testing"
	"time"
	"sort"

	"hilgate/drivers/line"
	"hilgate/drivers/sim"
	"hilgate/model/plant"
	"hilgate/motor"
)

func TestZZPTY(t *testing.T) {
	for _, turn := range []time.Duration{0, 500*time.Microsecond} {
	world := new(plant.World)
	start := time.Now()
	joints := twoJoints(motor.ModeEffort)
	var axes []*plant.Joint
	for range joints {
		axes = append(axes, world.AddJoint(plant.DefaultJoint(), nil))
	}
	s := NewSim(DefaultParams(), joints, axes)
	b := sim.NewBench(func() { world.AdvanceTo(time.Since(start)) })
	p, err := sim.NewPTY(b, s, sim.PTYConfig{Baud: 115200, Turnaround: turn})
	if err != nil { t.Fatal(err) }
	ctx, cancel := context.WithCancel(t.Context())
	go p.Run(ctx)
	defer cancel()
	port, err := line.OpenSerial(p.Path(), line.Options{Baud: 115200})
	if err != nil { t.Fatal(err) }
	g, err := Open(port, DefaultParams(), joints)
	if err != nil { t.Fatal(err) }
	t0 := time.Now()
	if err := g.Arm(); err != nil { t.Fatal(err) }
	t.Log("arm took", time.Since(t0))
	fb := make([]motor.Feedback, 2)
	cmd := []motor.Command{{Mode: motor.ModeEffort, Effort: 0.3}, {Mode: motor.ModeEffort, Effort: 0.3}}
	var took []time.Duration
	for range 1000 {
		t1 := time.Now()
		if err := g.Read(fb); err != nil { t.Fatal(err) }
		if err := g.Write(cmd); err != nil { t.Fatal(err) }
		took = append(took, time.Since(t1))
	}
	all := time.Duration(0)
	for _, d := range took { all += d }
	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	t.Logf("turnaround %v: mean %v → %.0f Hz; p50 %v p99 %v; ceiling 349 Hz", turn, all/1000, 1000/all.Seconds(), took[500], took[990])
	t.Logf("%+v", port.Counters().Counts())
	port.Close(); p.Close()
	}
}
