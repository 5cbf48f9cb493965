package state

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"hilgate/bms"
	"hilgate/model/permit"
	"hilgate/model/unit"
)

// perform has the store's goroutine do something, and waits for its answer.
func (s *Store) perform(do func(at time.Time) error) error {
	o := order{do: do, reply: make(chan error, 1)}
	select {
	case s.orders <- o:
	case <-s.done:
		return ErrStopping
	}
	select {
	case err := <-o.reply:
		return err
	case <-s.done:
		return ErrStopping
	}
}

// EngageEStop stops all joints, at once and until it is released on purpose. It may be engaged again while
// it stands: each engagement gets an ID of its own, and only the newest releases it. It returns that ID.
func (s *Store) EngageEStop(source, reason string) (id uint64, err error) {
	s.estop.Lock() // never held for longer than this: no release comes between
	s.engaged++
	id = s.engaged
	for _, word := range s.joints {
		word.Withhold(permit.EStop) // before anything else, whatever the store is doing
	}
	s.estop.Unlock()
	err = s.perform(func(at time.Time) error {
		s.safety.EStops++
		if !s.safety.EStop {
			s.safety.EStop, s.safety.EStopSince = true, at
		}
		if id > s.safety.EStopID { // the orders of two may come in either order
			s.safety.EStopID, s.safety.EStopReason = id, source
			if reason != "" {
				s.safety.EStopReason += ": " + reason
			}
		}
		s.note(true, urgent)
		return nil
	})
	return id, err
}

// ReleaseEStop releases the emergency stop that confirm names: the ID of its engagement, in decimal. So
// nobody releases a stop that he has not seen. It is refused while another one is being engaged, and until
// every loop that lives has shown that its joints are stopped: a stop that came and went between two ticks
// would have stopped nothing. No joint moves by it: the trajectory was dropped.
func (s *Store) ReleaseEStop(confirm string) error {
	return s.perform(func(time.Time) error {
		if !s.safety.EStop {
			return errors.New("no emergency stop is engaged")
		}
		if id, err := strconv.ParseUint(confirm, 10, 64); err != nil || id != s.safety.EStopID {
			return fmt.Errorf("emergency stop %d stands, and %q does not confirm it", s.safety.EStopID, confirm)
		}
		for i := range s.groups {
			for k := range s.groups[i].Joints {
				if j := &s.groups[i].Joints[k]; s.groups[i].Connected && j.Withheld&permit.EStop == 0 {
					return fmt.Errorf("joint %s has not been seen to be stopped yet", j.Name)
				}
			}
		}
		s.estop.Lock()
		defer s.estop.Unlock()
		if s.engaged != s.safety.EStops {
			return errors.New("another emergency stop is being engaged")
		}
		s.safety.EStop, s.safety.EStopReason, s.safety.EStopSince = false, "", time.Time{}
		for _, word := range s.joints {
			word.Grant(permit.EStop)
		}
		s.note(true, urgent)
		return nil
	})
}

// battery performs an order on one pack.
func (s *Store) battery(name string, do func(p *pack) error) error {
	return s.perform(func(time.Time) error {
		for _, p := range s.packs {
			if p.state.Name == name {
				defer s.note(true, urgent)
				return do(p)
			}
		}
		return fmt.Errorf("no battery is named %q", name)
	})
}

// Recharge starts or stops the recharging of a battery.
func (s *Store) Recharge(name string, on bool) error {
	return s.battery(name, func(p *pack) error { return p.recharge(on) })
}

// Drain starts or stops the drawing of the battery's consumers, power_load included.
func (s *Store) Drain(name string, on bool) error {
	return s.battery(name, func(p *pack) error {
		p.drain(on)
		return nil
	})
}

// SetConsumer adds a consumer to a battery, or changes its power; negative power feeds the battery.
func (s *Store) SetConsumer(name, consumer string, w unit.Watts) error {
	if !unit.Finite(w) {
		return fmt.Errorf("consumer %q: power %v W is not a number", consumer, float64(w))
	}
	return s.battery(name, func(p *pack) error { return p.setConsumer(bms.Consumer{Name: consumer, Power: w}) })
}

// RemoveConsumer takes a consumer away from a battery.
func (s *Store) RemoveConsumer(name, consumer string) error {
	return s.battery(name, func(p *pack) error { return p.removeConsumer(consumer) })
}
