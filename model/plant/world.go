// Package plant is the world behind the simulators: packs with cells and heat, joints with inertia,
// friction and a motor. The simulators of one bench share one World, so that a joint's work empties the
// pack that feeds it.
//
// Nothing here knows a clock or a goroutine: whoever owns the World advances it, and serialises access
// (drivers/sim does both). Steps are of one fixed length, so that a run repeats to the same bits.
package plant

import "time"

// Step is the length of one step of the world.
const Step = time.Millisecond

// World is everything that the simulators of one bench stand on.
type World struct {
	now      time.Duration
	packs    []*Pack
	joints   []*Joint
	firmware []func(now, dt time.Duration)
}

// Now is the world's time since its beginning.
func (w *World) Now() time.Duration { return w.now }

// AdvanceTo steps the world until the next step would pass t.
func (w *World) AdvanceTo(t time.Duration) {
	for w.now+Step <= t {
		w.now += Step
		for _, run := range w.firmware {
			run(w.now, Step)
		}
		dt := Step.Seconds()
		for _, j := range w.joints {
			j.step(dt)
		}
		for _, p := range w.packs {
			p.step(dt)
		}
	}
}

// OnStep has f called at each step, before the physics: the place of a controller's own loops and timeouts.
func (w *World) OnStep(f func(now, dt time.Duration)) { w.firmware = append(w.firmware, f) }
