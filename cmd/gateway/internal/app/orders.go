package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hilgate/configs"
	"hilgate/model"
	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
	"hilgate/motor/trajectory"
)

// orders carries out commands, while the gateway takes any.
type orders struct {
	gateway *Gateway
	open    atomic.Bool
	mu      sync.Mutex // one trajectory at a time
	last    uint64     // that was accepted; under mu
}

var errClosed = errors.New("the gateway takes no commands now")

// run lets commands in until ctx ends.
func (o *orders) run(ctx context.Context) error {
	o.open.Store(true)
	<-ctx.Done()
	o.open.Store(false)
	return nil
}

// Follow has the loops of the named joints follow a trajectory in place of what they follow now. All of it is
// judged before any joint moves.
func (o *orders) Follow(m trajectory.Message) (id uint64, err error) {
	if !o.open.Load() {
		return 0, errClosed
	}
	snap := o.gateway.store.Latest()
	if err := o.gateway.mayRun(m.JointNames); err != nil {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	id = o.last + 1
	var start []func()
	for i := range o.gateway.cfg.Controllers {
		c := &o.gateway.cfg.Controllers[i]
		t, err := trajectory.New(m, o.joints(snap), trajectory.Options{
			ID: id, Now: time.Now(), UseHeaderStart: c.UseHeaderStartTime, Interpolate: c.Interpolate,
			StartTolerance: c.StartTolerance, Gazebo: c.Gazebo,
		})
		if err != nil {
			return 0, err
		}
		if !slices.ContainsFunc(m.JointNames, func(name string) bool { return c.Index(name) >= 0 }) {
			continue
		}
		for _, g := range o.gateway.groups {
			if g.control == c && g.moves(m.JointNames) {
				start = append(start, func() { g.loop.Follow(t) })
			}
		}
	}
	if len(start) == 0 {
		return 0, fmt.Errorf("no controller moves any of the joints %s", strings.Join(m.JointNames, ", "))
	}
	o.last = id
	for _, follow := range start {
		follow()
	}
	return id, nil
}

// mayRun refuses a trajectory for a joint that may not run now.
func (g *Gateway) mayRun(names []string) error {
	for _, m := range g.groups {
		for k := range m.config.Joints {
			// A tripped guard and a stale command wait for just this: a new trajectory.
			standing := m.permits[k].Reasons() &^ (permit.DeviceFault | permit.CommandStale)
			if name := m.config.Joints[k].Name; standing != 0 && slices.Contains(names, name) {
				return fmt.Errorf("joint %s may not run now: %v", name, standing)
			}
		}
	}
	return nil
}

// joints are all that a controller moves, with where they are.
func (o *orders) joints(s *model.Snapshot) []trajectory.Joint {
	var all []trajectory.Joint
	for i, g := range o.gateway.groups {
		for k := range g.config.Joints {
			j := &g.config.Joints[k]
			if o.gateway.control(j.Name) != nil {
				all = append(all, trajectory.Joint{
					Name: j.Name, Limits: j.Limits, Position: s.Groups[i].Joints[k].Feedback.Position,
				})
			}
		}
	}
	return all
}

// control is the controller that moves a joint; nil if none does.
func (g *Gateway) control(joint string) *configs.Controller {
	for i := range g.cfg.Controllers {
		if g.cfg.Controllers[i].Index(joint) >= 0 {
			return &g.cfg.Controllers[i]
		}
	}
	return nil
}

// EStop engages the emergency stop. It is taken at any time.
func (o *orders) EStop(source, reason string) {
	if id, err := o.gateway.store.EngageEStop(source, reason); err == nil {
		o.gateway.log.Warn("emergency stop engaged", "id", id, "source", source, "reason", reason)
	}
}

// ReleaseEStop releases the emergency stop that confirm names.
func (o *orders) ReleaseEStop(confirm string) error {
	if !o.open.Load() {
		return errClosed
	}
	err := o.gateway.store.ReleaseEStop(confirm)
	if err == nil {
		o.gateway.log.Warn("emergency stop released", "id", confirm)
	}
	return err
}

// Recharge starts or stops the recharging of a battery.
func (o *orders) Recharge(battery string, on bool) error {
	if !o.open.Load() {
		return errClosed
	}
	return o.gateway.store.Recharge(battery, on)
}

// Drain starts or stops what a battery's consumers draw.
func (o *orders) Drain(battery string, on bool) error {
	if !o.open.Load() {
		return errClosed
	}
	return o.gateway.store.Drain(battery, on)
}

// Consumer adds a consumer to a battery, or changes its power.
func (o *orders) Consumer(battery, name string, w unit.Watts) error {
	if !o.open.Load() {
		return errClosed
	}
	return o.gateway.store.SetConsumer(battery, name, w)
}

// RemoveConsumer takes a consumer away from a battery.
func (o *orders) RemoveConsumer(battery, name string) error {
	if !o.open.Load() {
		return errClosed
	}
	return o.gateway.store.RemoveConsumer(battery, name)
}

// repeat follows the configured motion, over and over, whenever its joints may run. It gives no command that
// anybody else could not give, and waits for the trajectories of others.
func (g *Gateway) repeat(ctx context.Context) error {
	m := g.cfg.Motion.Message()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	var mine uint64
	var again time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case at := <-look.C:
			s := g.store.Latest()
			ran := slices.ContainsFunc(s.Groups, func(m motor.State) bool {
				return m.Trajectory.Active || m.Trajectory.ID == mine && m.Trajectory.Ratio == 1 && at.Before(again)
			})
			if ran || g.mayRun(m.JointNames) != nil {
				continue
			}
			if id, err := g.orders.Follow(m); err == nil {
				mine, again = id, at.Add(g.cfg.Motion.Period)
			}
		}
	}
}
