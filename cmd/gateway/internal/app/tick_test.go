package app

import (
	"testing"
	"time"

	"hilgate/configs"
	"hilgate/drivers/all"
	"hilgate/model/permit"
)

// BenchmarkTickOfTwoJoints is one whole control tick over a line in memory: the loop, the RoboClaw driver, the
// counted line, and the simulator with the world behind it.
func BenchmarkTickOfTwoJoints(b *testing.B) {
	cfg, err := configs.Load("demo.yaml", configs.Demo(), all.Registry())
	if err != nil {
		b.Fatal(err)
	}
	cfg.MQTT, cfg.HTTP.Listen, cfg.Bus("drive").Device = nil, "", "sim:"
	g, err := New(cfg, all.Registry(), Build{}, quiet)
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	m := g.groups[0]
	for _, word := range m.permits { // nobody polls the pack here
		word.Grant(permit.BatteryLost)
	}
	at := time.Duration(0)
	tick := func() { m.loop.Tick(at); at += m.period }
	for range 200 { // opened, armed, and every slow value read
		tick()
	}
	if n := m.permits[0].Reasons(); n != 0 {
		b.Fatalf("the joints do not run: %v", n)
	}
	if n := testing.AllocsPerRun(1000, tick); n != 0 {
		b.Errorf("a tick allocates %v times, want 0", n)
	}
	b.ReportAllocs()
	for b.Loop() {
		tick()
	}
}
