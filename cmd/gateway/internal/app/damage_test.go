package app

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hilgate/configs"
	"hilgate/drivers/all"
	"hilgate/model"
	"hilgate/model/link"
	"hilgate/motor/loop"
)

// inBubble is the demo's robot on memory lines, without broker and pages, for a bubble of virtual time.
func inBubble(t *testing.T, edit func(*configs.File)) *Gateway {
	t.Helper()
	text := string(configs.Demo())
	text = strings.ReplaceAll(text, `"pty:"`, `"sim:"`)
	cfg, err := configs.Load("demo.yaml", []byte(text), all.Registry())
	if err != nil {
		t.Fatal(err)
	}
	cfg.MQTT, cfg.HTTP.Listen = nil, ""
	if edit != nil {
		edit(cfg)
	}
	g, err := New(cfg, all.Registry(), Build{}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// timer paces a loop by package time, which a bubble makes virtual.
type timer struct{ *loop.Timer }

func (timer) Realtime() loop.Realtime { return loop.Realtime{} }

// A damaged byte must never become a number: on both buses one byte in a hundred is damaged for ten minutes,
// and every published value is held against the truth.
func TestDamagedBytesNeverBecomeValues(t *testing.T) {
	minutes := 10
	if testing.Short() {
		minutes = 1
	}
	synctest.Test(t, func(t *testing.T) {
		g := inBubble(t, func(cfg *configs.File) {
			for i := range cfg.Buses {
				cfg.Buses[i].Faults.Flip, cfg.Buses[i].Faults.Seed = 0.01, uint64(i+1)
			}
			// So much damage loses the controller every few seconds, and each time the motion begins again: it
			// is to go somewhere from wherever that is.
			for i, far := range []float64{0, 6, -6} {
				cfg.Motion.Points[i].Positions = []float64{far, -far}
				cfg.Motion.Points[i].TimeFromStart = time.Duration(i) * 3 * time.Second
			}
			cfg.Motion.Points = cfg.Motion.Points[:3]
		})
		for _, m := range g.groups {
			m.pacer = timer{loop.NewTimer(m.period)}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(minutes)*time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx, nil) }()

		var snapshots, measured int
		travel, last := 0.0, 0.0
		for ctx.Err() == nil {
			changed := g.Changed()
			s := g.Latest()
			truth := g.world.truth()
			snapshots++
			measured += hold(t, s, &truth)
			travel += math.Abs(truth.Joints[0].Position - last)
			last = truth.Joints[0].Position
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if measured < snapshots/2 {
			t.Errorf("only %d of %d snapshots have a measured voltage", measured, snapshots)
		}
		if want := float64(minutes) * 20; travel < want { // the built-in motion travels 12 rad in 10 s
			t.Errorf("left has travelled %.0f rad in %d minutes, want motion to go on: at least %.0f", travel, minutes, want)
		}
		gauge, drive := g.counters["gauge"].Counts(), g.counters["drive"].Counts()
		if gauge.Failures[link.PEC] == 0 || drive.Failures[link.CRC] == 0 {
			t.Errorf("PEC failures on the gauge %d, CRC failures on the drive %d: the counters tell nothing",
				gauge.Failures[link.PEC], drive.Failures[link.CRC])
		}
		t.Logf("%d snapshots; gauge: %d transactions, %d retries, failures %v; drive: %d transactions, failures %v; left travelled %.0f rad",
			snapshots, gauge.Transactions, gauge.Retries, gauge.Failures, drive.Transactions, drive.Failures, travel)
	})
}

// hold compares what is published with the truth, and returns 1 if the pack's voltage is measured. The
// bounds are what the values can change by between two polls, and the gauge's resolution.
func hold(t *testing.T, s *model.Snapshot, truth *truth) int {
	t.Helper()
	p, q := &s.Packs[0], &truth.Packs[0]
	measured := 0
	off := func(what string, got, want, bound float64) {
		if !math.IsNaN(got) && math.Abs(got-want) > bound {
			t.Fatalf("after %.1f s: %s is published as %v, really %v", truth.Seconds, what, got, want)
		}
	}
	if v := float64(p.Reading.Voltage); !math.IsNaN(v) {
		measured = 1
	}
	off("voltage", float64(p.Reading.Voltage), q.Voltage, 1.5)
	off("current", float64(p.Reading.Current), q.Current, 12)
	off("temperature", float64(p.Reading.Temperature), q.Temperature, 1)
	off("gauge's state of charge", float64(p.Reading.SoC), q.SoC, 0.02)
	off("estimated state of charge", float64(p.Estimate.SoC), q.SoC, 0.05)
	for i, v := range p.Reading.Cells {
		off("a cell", float64(v), float64(q.Cells[i]), 0.5)
	}
	for i := range s.Groups[0].Joints {
		if !s.Groups[0].Connected { // the last values, said to be old
			break
		}
		j := &s.Groups[0].Joints[i]
		off(j.Name, float64(j.Feedback.Position), truth.Joints[i].Position, 1)
		off(j.Name+"'s supply", float64(j.Feedback.Voltage), truth.Joints[i].Supply, 2)
	}
	return measured
}
