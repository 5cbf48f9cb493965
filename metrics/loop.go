package metrics

import (
	"hilgate/model"
	"hilgate/motor"
)

// loopFamilies tell how well the control loops keep time. The distributions are histograms of Metrics.
type loopFamilies struct {
	period, cycles, overruns, skipped, dropped, losses, realtime family
}

func newLoopFamilies(c *catalogue) loopFamilies {
	return loopFamilies{
		period:   c.gauge("control_loop_period_seconds", "Period of the loop, as configured.", "loop"),
		cycles:   c.counter("control_loop_cycles_total", "Ticks of the loop.", "loop"),
		overruns: c.counter("control_loop_overruns_total", "Ticks that took longer than the period.", "loop"),
		skipped: c.counter("control_loop_skipped_cycles_total",
			"Ticks left out because an earlier one took too long or the loop woke too late.", "loop"),
		dropped: c.counter("control_loop_dropped_samples_total",
			"Samples that nobody took, so that the gateway's state missed a tick.", "loop"),
		losses: c.counter("control_loop_losses_total", "Times that the controller was lost.", "loop"),
		realtime: c.gauge("control_loop_realtime",
			"1 for each help against jitter that the operating system granted.", "loop", "feature"),
	}
}

var featureNames = []string{"sched_fifo", "mlock", "nanosleep"}

// collect tells of one configured loop; its counts are 0 until the snapshot knows its joints.
func (f *loopFamilies) collect(p page, l *Loop, s *model.Snapshot) {
	p.put(f.period, l.Period.Seconds(), l.Name)
	var n motor.LoopCounts
	for i := range s.Groups {
		if s.Groups[i].Name == l.Name {
			n = s.Groups[i].Counts
		}
	}
	p.put(f.cycles, float64(n.Cycles), l.Name)
	p.put(f.overruns, float64(n.Overruns), l.Name)
	p.put(f.skipped, float64(n.Skipped), l.Name)
	p.put(f.dropped, float64(n.Dropped), l.Name)
	p.put(f.losses, float64(n.Losses), l.Name)
	var granted Realtime
	if l.Realtime != nil {
		granted = l.Realtime()
	}
	for i, on := range [...]bool{granted.FIFO, granted.Mlock, granted.Nanosleep} {
		p.flag(f.realtime, on, l.Name, featureNames[i])
	}
}
