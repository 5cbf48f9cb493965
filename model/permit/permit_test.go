package permit

import (
	"slices"
	"sync"
	"testing"
)

func TestReasonsAddUpAndAreTakenAwayOneByOne(t *testing.T) {
	var w Word
	if w.Reasons() != 0 {
		t.Fatal("a new word withholds")
	}
	w.Withhold(EStop | BatteryEmpty)
	w.Withhold(EStop)
	w.Grant(BatteryEmpty | DeviceLost)
	if got := w.Reasons(); got != EStop {
		t.Errorf("reasons = %v, want estop", got)
	}
	w.Set(BatteryLost, true)
	w.Set(EStop, false)
	if got := w.Reasons(); got != BatteryLost {
		t.Errorf("reasons = %v, want battery_lost", got)
	}
}

func TestReasonsAreNamed(t *testing.T) {
	if got := (EStop | DeviceLost).String(); got != "estop+device_lost" {
		t.Errorf("got %q", got)
	}
	if got := Reason(0).String(); got != "none" {
		t.Errorf("got %q", got)
	}
	if got := (CommandStale | ShuttingDown).List(); !slices.Equal(got, []string{"command_stale", "shutting_down"}) {
		t.Errorf("got %q", got)
	}
	if ShuttingDown != 1<<(len(Names())-1) {
		t.Error("a reason has no name")
	}
}

func TestWordsAreSetFromSeveralGoroutines(t *testing.T) {
	var w Word
	var all sync.WaitGroup
	for i := range Names() {
		all.Go(func() {
			for range 1000 {
				w.Withhold(1 << i)
				w.Grant(1 << i)
			}
			w.Withhold(1 << i)
		})
	}
	all.Wait()
	if want := Reason(1)<<len(Names()) - 1; w.Reasons() != want {
		t.Errorf("reasons = %v, want all", w.Reasons())
	}
}
