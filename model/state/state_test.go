package state

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"hilgate/bms"
	"hilgate/model/fusion"
	"hilgate/model/link"
	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
)

// rig is a store with one pack that feeds one joint of two.
type rig struct {
	*Store
	observations chan bms.Observation
	samples      chan motor.Sample
	fed, other   *permit.Word
	charger      []bool
	load         []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		observations: make(chan bms.Observation, 16), samples: make(chan motor.Sample, 16),
		fed: new(permit.Word), other: new(permit.Word),
	}
	f := fusion.Default()
	f.Model.Capacity, f.Model.E0, f.Model.E1, f.Model.Resistance = 5, 16.8, -3.6, 0.08
	f.Model.EnableRecharge, f.Model.ChargingTime, f.Model.PowerLoad = true, 1, 6
	s, err := New(Config{
		Robot: "rover",
		Batteries: []Battery{{
			Name: "main", Driver: "sbs", Fusion: f, StaleAfter: 2 * time.Second, Feeds: []string{"left"},
			SetCharging: func(on bool) error { r.charger = append(r.charger, on); return nil },
			SetLoad: func(draining bool, w unit.Watts) {
				r.load = append(r.load, fmt.Sprint(draining, " ", float64(w)))
			},
		}},
		Groups: []Group{{
			Name: "base", Joints: []motor.Joint{motor.NewJoint("left", 1), motor.NewJoint("right", 2)},
			Permits: []*permit.Word{r.fed, r.other},
		}},
		Observations: r.observations, Samples: r.samples,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Store = s
	return r
}

// during runs the store in a bubble of virtual time.
func during(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		f(r)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// tell has the pack tell a state of charge, at rest unless a current is given.
func (r *rig) tell(soc float64, current float64) {
	reading := bms.Unmeasured()
	reading.Present, reading.SoC, reading.Current = true, unit.Ratio(soc), unit.Amperes(current)
	reading.Voltage = unit.Volts(16.8 - 3.6*(1-soc) + 0.08*current)
	reading.Status = bms.Discharging
	r.observations <- bms.Observation{Pack: "main", At: time.Now(), Reading: reading}
	synctest.Wait()
}

// fail has n polls fail, a second apart.
func (r *rig) fail(n int) {
	for i := range n {
		time.Sleep(time.Second)
		r.observations <- bms.Observation{
			Pack: "main", At: time.Now(), Reading: bms.Unmeasured(), Misses: i + 1,
			Err: fmt.Errorf("main: read voltage: %w", link.NACK),
		}
		synctest.Wait()
	}
}

func (r *rig) main() *bms.State { return r.Latest().Pack("main") }

func TestAJointWaitsForItsPack(t *testing.T) {
	during(t, func(r *rig) {
		if r.fed.Reasons() != permit.BatteryLost || r.other.Reasons() != 0 {
			t.Errorf("at start: fed %v, other %v", r.fed.Reasons(), r.other.Reasons())
		}
		r.tell(0.8, -1)
		if r.fed.Reasons() != 0 {
			t.Errorf("after a reading: %v", r.fed.Reasons())
		}
	})
}

func TestASilentPackAgesSaysSoAndTurnsStale(t *testing.T) {
	during(t, func(r *rig) {
		r.tell(0.8, -2)
		before := r.main().Estimate
		r.fail(1)
		if p := r.main(); p.Quality != bms.Estimated || !unit.Known(p.Reading.Voltage) || p.LastError == "" {
			t.Errorf("after a missed poll: %v, %v V, %q", p.Quality, p.Reading.Voltage, p.LastError)
		}
		r.fail(3)
		p := r.main()
		if p.Quality != bms.Stale || unit.Known(p.Reading.Voltage) {
			t.Errorf("after stale_after: %v, %v V; want stale and no measured value", p.Quality, p.Reading.Voltage)
		}
		if !unit.Known(p.Estimate.SoC) || p.Estimate.SoCSigma <= before.SoCSigma {
			t.Errorf("estimate %v ± %v, before ± %v: want one that goes on, less certain", p.Estimate.SoC, p.Estimate.SoCSigma, before.SoCSigma)
		}
		if r.fed.Reasons() != permit.BatteryLost {
			t.Errorf("joint: %v, want battery_lost", r.fed.Reasons())
		}
		r.tell(0.79, -2)
		if p := r.main(); p.Quality != bms.Measured || p.LastError != "" || r.fed.Reasons() != 0 {
			t.Errorf("back: %v, %q, %v", p.Quality, p.LastError, r.fed.Reasons())
		}
	})
}

func TestAnEmptyPackStopsItsJointsUntilItHasRecovered(t *testing.T) {
	during(t, func(r *rig) {
		r.tell(0.02, -1)
		for range 100 {
			time.Sleep(10 * time.Second)
			r.tell(0, -1)
		}
		if !r.main().Empty || r.fed.Reasons() != permit.BatteryEmpty || r.other.Reasons() != 0 {
			t.Fatalf("empty %v at %v, fed %v, other %v", r.main().Empty, r.main().Estimate.SoC, r.fed.Reasons(), r.other.Reasons())
		}
		for soc := 0.0; soc < 0.04; soc += 0.005 {
			time.Sleep(18 * time.Second)
			r.tell(soc, 5)
		}
		if r.fed.Reasons() != permit.BatteryEmpty {
			t.Errorf("at %v: %v, want battery_empty until 0.05", r.main().Estimate.SoC, r.fed.Reasons())
		}
		for soc := 0.04; soc < 0.1; soc += 0.005 {
			time.Sleep(18 * time.Second)
			r.tell(soc, 5)
		}
		if r.fed.Reasons() != 0 {
			t.Errorf("at %v: %v, want none", r.main().Estimate.SoC, r.fed.Reasons())
		}
	})
}

func TestAnImpossibleReadingIsCountedAndNotTaken(t *testing.T) {
	during(t, func(r *rig) {
		r.tell(0.8, -1)
		reading := bms.Unmeasured()
		reading.Voltage, reading.Temperature = 15, 6279.9
		time.Sleep(time.Second)
		r.observations <- bms.Observation{Pack: "main", At: time.Now(), Reading: reading}
		synctest.Wait()
		p := r.main()
		if p.Rejected[bms.RejectRange] != 1 || p.Reading.Voltage == 15 || p.Quality != bms.Estimated {
			t.Errorf("rejected %v, %v V, %v", p.Rejected, p.Reading.Voltage, p.Quality)
		}
	})
}

func TestEStopIsLatchedAndReleasedByItsID(t *testing.T) {
	during(t, func(r *rig) {
		id, err := r.EngageEStop("mqtt", "smoke")
		if err != nil || id != 1 || r.fed.Reasons()&permit.EStop == 0 || r.other.Reasons() != permit.EStop {
			t.Fatalf("engaged as %d, %v: fed %v, other %v", id, err, r.fed.Reasons(), r.other.Reasons())
		}
		if s := r.Latest().Safety; !s.EStop || s.EStopReason != "mqtt: smoke" || s.Withheld&permit.EStop == 0 {
			t.Errorf("snapshot %+v", s)
		}
		second, _ := r.EngageEStop("mqtt", "fire")
		for _, wrong := range []string{"", "1", "x", "3"} {
			if err := r.ReleaseEStop(wrong); err == nil {
				t.Errorf("released by %q while %d stands", wrong, second)
			}
		}
		if err := r.ReleaseEStop("2"); err != nil || r.other.Reasons() != 0 {
			t.Errorf("release: %v, other %v", err, r.other.Reasons())
		}
		if err := r.ReleaseEStop("2"); err == nil {
			t.Error("released twice")
		}
	})
}

func TestAnEStopThatIsBeingEngagedIsNotReleasedByAnEarlierConfirmation(t *testing.T) {
	during(t, func(r *rig) {
		if _, err := r.EngageEStop("mqtt", "smoke"); err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		go r.perform(func(time.Time) error { <-release; return nil }) // the store is busy
		synctest.Wait()
		released, engaged := make(chan error, 1), make(chan uint64, 1)
		go func() { released <- r.ReleaseEStop("1") }()
		synctest.Wait()
		go func() {
			id, _ := r.EngageEStop("mqtt", "fire")
			engaged <- id
		}()
		synctest.Wait()
		close(release)
		if err := <-released; err == nil {
			t.Error("a stop that had been engaged was released by the confirmation of the one before")
		}
		if id := <-engaged; r.Latest().Safety.EStopID != id || r.other.Reasons()&permit.EStop == 0 {
			t.Errorf("%d engaged: safety %+v, joint %v", id, r.Latest().Safety, r.other.Reasons())
		}
	})
}

func TestAnEStopIsReleasedOnceTheJointsWereSeenToBeStopped(t *testing.T) {
	during(t, func(r *rig) {
		running := sampleOf(1)
		r.samples <- running
		synctest.Wait()
		if _, err := r.EngageEStop("mqtt", "smoke"); err != nil {
			t.Fatal(err)
		}
		if err := r.ReleaseEStop("1"); err == nil || r.other.Reasons() != permit.EStop {
			t.Errorf("released before the loop had ticked: %v, joint %v", err, r.other.Reasons())
		}
		for i := range running.N {
			running.Joints[i].Withheld = permit.EStop
		}
		r.samples <- running
		synctest.Wait()
		if err := r.ReleaseEStop("1"); err != nil || r.other.Reasons() != 0 {
			t.Errorf("release of joints that are stopped: %v, joint %v", err, r.other.Reasons())
		}
	})
}

func TestALoopThatHangsIsShownAsLost(t *testing.T) {
	during(t, func(r *rig) {
		r.samples <- sampleOf(1)
		time.Sleep(silentAfter / 2)
		if g := r.Latest().Groups[0]; !g.Connected {
			t.Errorf("half a second after a sample: %q", g.LastError)
		}
		time.Sleep(silentAfter)
		if g := r.Latest().Groups[0]; g.Connected || g.LastError == "" {
			t.Errorf("a loop that tells nothing any more: connected %v, %q", g.Connected, g.LastError)
		}
		m := sampleOf(1)
		m.At = time.Now()
		r.samples <- m
		synctest.Wait()
		if g := r.Latest().Groups[0]; !g.Connected || g.LastError != "" {
			t.Errorf("after the next sample: connected %v, %q", g.Connected, g.LastError)
		}
	})
}

// A pack that is silent is polled in vain, and each of those polls began before the last tick of the store.
func TestTimeIsCountedOnceThoughPollsTakeLong(t *testing.T) {
	during(t, func(r *rig) {
		r.tell(0.8, -2)
		before := *r.main()
		const seconds = 20
		for i := range 10 * seconds {
			began := time.Now()
			time.Sleep(100 * time.Millisecond)
			r.observations <- bms.Observation{
				Pack: "main", At: began, Reading: bms.Unmeasured(), Misses: i + 1, Err: fmt.Errorf("main: %w", link.Timeout),
			}
			synctest.Wait()
		}
		p := r.main()
		out := float64(p.ChargeOut - before.ChargeOut)
		if want := 2. * seconds / 3600; math.Abs(out-want) > want/10 {
			t.Errorf("%v Ah counted at 2 A for %d s, want about %v", out, seconds, want)
		}
	})
}

func TestOrdersReachTheBatteryAndItsCharger(t *testing.T) {
	during(t, func(r *rig) {
		if err := r.Recharge("main", true); err != nil || !r.main().ChargerOn || len(r.charger) != 1 {
			t.Errorf("recharge: %v, %v, %v", err, r.main().ChargerOn, r.charger)
		}
		if err := r.Recharge("spare", true); err == nil {
			t.Error("a battery that is not there was recharged")
		}
		if err := r.SetConsumer("main", "lidar", 8); err != nil {
			t.Error(err)
		}
		if err := r.SetConsumer("main", "lidar", 9); err != nil {
			t.Error(err)
		}
		if err := r.SetConsumer("main", "arm", unit.Watts(math.NaN())); err == nil {
			t.Error("a consumer of NaN watts was taken")
		}
		r.tell(0.5, -1)
		if p := r.main(); len(p.Consumers) != 1 || p.Load != 15 {
			t.Errorf("consumers %v, load %v W; want lidar alone and 6+9 W", p.Consumers, p.Load)
		}
		if err := r.Drain("main", false); err != nil {
			t.Error(err)
		}
		if got := r.load[len(r.load)-1]; got != "false 9" {
			t.Errorf("load switched to %q", got)
		}
		if err := r.RemoveConsumer("main", "lidar"); err != nil || len(r.main().Consumers) != 0 {
			t.Errorf("remove: %v, %v", err, r.main().Consumers)
		}
		if err := r.RemoveConsumer("main", "lidar"); err == nil {
			t.Error("removed twice")
		}
	})
}

func TestConsumersAreBounded(t *testing.T) {
	during(t, func(r *rig) {
		var err error
		for i := 0; i < 1000 && err == nil; i++ {
			err = r.SetConsumer("main", fmt.Sprint("c", i), 1)
		}
		if err == nil {
			t.Error("a thousand consumers were taken")
		}
	})
}

func sampleOf(position float64) motor.Sample {
	m := motor.Sample{N: 2, Connected: true, At: time.Now()}
	for i := range m.N {
		m.Joints[i].Feedback = motor.Unmeasured()
		m.Joints[i].Feedback.Position = unit.Position(position)
		m.Joints[i].Feedback.Power = 20
	}
	return m
}

func TestSnapshotsAreBoundedInRateAndComeAtOnceOnAChange(t *testing.T) {
	during(t, func(r *rig) {
		r.samples <- sampleOf(0)
		synctest.Wait()
		time.Sleep(time.Second)
		begin := r.Latest().Seq
		for i := range 1000 {
			r.samples <- sampleOf(float64(i))
			time.Sleep(time.Millisecond)
		}
		if n := r.Latest().Seq - begin; n < 40 || n > 51 {
			t.Errorf("%d snapshots of 1000 samples in a second, want at most 50", n)
		}
		m := sampleOf(1)
		m.Joints[0].Withheld = permit.DeviceFault
		changed := r.Changed()
		r.samples <- m
		synctest.Wait()
		select {
		case <-changed:
		default:
			t.Error("a changed permit waits for the next snapshot")
		}
		if got := r.Latest().Groups[0].Joints[0].Withheld; got != permit.DeviceFault|permit.BatteryLost {
			t.Errorf("withheld %v", got)
		}
	})
}

func TestJointsPowerIsTheirPacksLoad(t *testing.T) {
	during(t, func(r *rig) {
		r.samples <- sampleOf(0)
		synctest.Wait()
		r.tell(0.5, -3)
		if got := r.main().Load; got != 26 { // left's 20 W and power_load; right is not fed by it
			t.Errorf("load %v W, want 26", got)
		}
	})
}

func TestSnapshotsDoNotChange(t *testing.T) {
	during(t, func(r *rig) {
		r.samples <- sampleOf(1)
		r.tell(0.5, -1)
		if err := r.SetConsumer("main", "lidar", 1); err != nil {
			t.Error(err)
		}
		old := r.Latest()
		text := fmt.Sprintf("%+v", *old)
		r.samples <- sampleOf(2)
		r.tell(0.4, -2)
		if err := r.SetConsumer("main", "lidar", 2); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprintf("%+v", *old); got != text {
			t.Errorf("an old snapshot changed:\n%s\n%s", text, got)
		}
	})
}

func TestTheLastSnapshotHasWhatCameBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		reading := bms.Unmeasured()
		reading.Voltage = 15
		r.observations <- bms.Observation{Pack: "main", At: time.Now(), Reading: reading}
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if got := r.main().Reading.Voltage; got != 15 {
			t.Errorf("last snapshot has %v V", got)
		}
		if err := r.Recharge("main", true); !errors.Is(err, ErrStopping) {
			t.Errorf("an order after the end: %v", err)
		}
	})
}
