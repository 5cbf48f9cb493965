// Package model holds the whole robot as one value.
package model

import (
	"time"

	"hilgate/bms"
	"hilgate/model/permit"
	"hilgate/motor"
)

// Snapshot is the robot at one moment. It is shared and never changes: do not modify it, nor what it
// refers to.
type Snapshot struct {
	Robot     string
	Seq       uint64    // grows by one a snapshot
	At        time.Time // when it was made
	Packs     []bms.State
	Groups    []motor.State
	Safety    Safety
	Simulated bool // at least one device is a simulator
}

// Safety is the state of the robot's protective functions.
type Safety struct {
	EStop       bool
	EStopID     uint64        // of the engagement that stands, to be named by whoever releases it; else of the last
	EStopReason string        // who engaged it and why
	EStopSince  time.Time     // zero if it is not engaged
	EStops      uint64        // engagements since start
	Withheld    permit.Reason // the union over all joints
}

// Pack finds a pack by name; nil if there is none.
func (s *Snapshot) Pack(name string) *bms.State {
	for i := range s.Packs {
		if s.Packs[i].Name == name {
			return &s.Packs[i]
		}
	}
	return nil
}
