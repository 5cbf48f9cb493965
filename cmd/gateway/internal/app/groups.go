package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"hilgate/configs"
	"hilgate/metrics"
	"hilgate/model/permit"
	"hilgate/motor"
	"hilgate/motor/loop"
)

// group is one motor controller with the loop that owns it.
type group struct {
	config  *configs.Group
	control *configs.Controller // nil: no controller moves its joints, they are only watched
	permits []*permit.Word      // one a joint
	open    func() (motor.Group, io.Closer, error)
	period  time.Duration
	pacer   pacer
	loop    *loop.Loop
}

// pacer is a loop.Pacer that tells what the operating system granted it.
type pacer interface {
	Wait(ctx context.Context) (at time.Duration, err error)
	Realtime() loop.Realtime
}

// moves reports whether any of the joints is one of the group's.
func (m *group) moves(names []string) bool {
	return slices.ContainsFunc(m.config.Joints, func(j motor.Joint) bool { return slices.Contains(names, j.Name) })
}

// buildGroups prepares one group a motor controller, all but its loop.
func (g *Gateway) buildGroups() error {
	for i := range g.cfg.Motors {
		c := &g.cfg.Motors[i]
		m := &group{config: c, control: g.cfg.ControllerOf(c), period: time.Second / configs.DefaultRate}
		if m.control != nil {
			m.period = m.control.Period()
		}
		for range c.Joints {
			m.permits = append(m.permits, new(permit.Word))
		}
		open, err := g.serialOpener(g.cfg.Bus(c.Bus))
		if err != nil {
			return err
		}
		spec, _ := g.reg.Lookup(c.Driver)
		m.open = func() (motor.Group, io.Closer, error) {
			port, err := open()
			if err != nil {
				return nil, nil, err
			}
			group, err := spec.OpenGroup(port, &c.Params, c.Joints)
			if err != nil {
				port.Close()
				return nil, nil, fmt.Errorf("motors %s: %w", c.Name, err)
			}
			return group, port, nil
		}
		g.groups = append(g.groups, m)
	}
	return nil
}

// buildLoops makes the loops of the groups. It comes last, since a loop tells its durations to the metrics.
func (g *Gateway) buildLoops(samples chan<- motor.Sample) {
	for i, m := range g.groups {
		c := loop.Config{
			Name: m.config.Name, Group: i, Open: m.open, Joints: m.config.Joints, Permits: m.permits, Period: m.period,
			Samples: samples, Log: g.log,
			Observe: loop.Observers{
				Wakeup: g.metrics.Wakeup(m.config.Name), Read: g.metrics.Stage(m.config.Name, metrics.Read),
				Control: g.metrics.Stage(m.config.Name, metrics.Control), Write: g.metrics.Stage(m.config.Name, metrics.Write),
			},
		}
		if m.control != nil {
			c.Gazebo, c.CommandTimeout = m.control.Gazebo, m.control.CommandTimeout
		}
		for k := range m.config.Joints {
			c.Axes = append(c.Axes, m.axis(&m.config.Joints[k]))
		}
		m.loop = loop.New(c)
		m.pacer = g.newPacer(m.period)
	}
}

// axis is how a joint is controlled; with no gains if no controller moves it.
func (m *group) axis(j *motor.Joint) loop.Axis {
	var axis loop.Axis
	if m.control == nil {
		return axis
	}
	if i := m.control.Index(j.Name); i >= 0 {
		axis = loop.Axis{Position: m.control.Position(i), Velocity: m.control.Velocity(i), Initial: m.control.Initial(i)}
	}
	return axis
}
