// Package permit says why a device may not run now.
//
// One Word belongs to one device (a pack, or a joint). Whoever knows a reason sets it, the device's owner
// reads the word once a tick; there is no other path by which motion is stopped or allowed.
package permit

import (
	"strings"
	"sync/atomic"
)

// Reason is a set of reasons not to run; 0 is none.
type Reason uint32

const (
	EStop         Reason = 1 << iota // an emergency stop is engaged, until it is released on purpose
	BatteryEmpty                     // the pack that feeds the device is drained
	BatteryLost                      // the pack that feeds the device is unknown or does not answer
	LevelInactive                    // no active level holds the device
	CommandStale                     // the command that it followed is too old
	DeviceLost                       // the device does not answer, or has not answered yet
	DeviceFault                      // the device, or the guard on its limits, reports a fault
	ShuttingDown                     // the gateway is stopping
)

var names = [...]string{
	"estop", "battery_empty", "battery_lost", "level_inactive",
	"command_stale", "device_lost", "device_fault", "shutting_down",
}

// Names lists the name of every reason, the lowest bit first.
func Names() []string { return names[:] }

// List lists the names of the reasons in r, the lowest bit first; empty, not nil, for none.
func (r Reason) List() []string {
	all := make([]string, 0, len(names))
	for i, name := range names {
		if r&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return all
}

// String joins the names of the reasons in r by "+"; no reason gives "none".
func (r Reason) String() string {
	if r == 0 {
		return "none"
	}
	return strings.Join(r.List(), "+")
}

// Word holds the reasons why one device may not run. The zero Word lets it run. It may be used from
// several goroutines.
type Word struct{ bits atomic.Uint32 }

// Withhold adds the reasons in r.
func (w *Word) Withhold(r Reason) { w.bits.Or(uint32(r)) }

// Grant takes the reasons in r away.
func (w *Word) Grant(r Reason) { w.bits.And(^uint32(r)) }

// Set withholds the reasons in r if withhold is true and grants them otherwise.
func (w *Word) Set(r Reason, withhold bool) {
	if withhold {
		w.Withhold(r)
	} else {
		w.Grant(r)
	}
}

// Reasons returns the reasons that stand; 0 means that the device may run.
func (w *Word) Reasons() Reason { return Reason(w.bits.Load()) }
