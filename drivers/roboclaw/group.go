package roboclaw

import (
	"fmt"
	"io"
	"math"

	"hilgate/model/link"
	"hilgate/model/unit"
	"hilgate/motor"
)

// Group is the one or two joints of a unit. It implements motor.Group and motor.Identifier.
type Group struct {
	client
	params Params
	axes   []axis

	armed    bool
	identity motor.Identity
	known    bool
	has      abilities
	cycle    int // since Arm
	turn     int // of the rotation

	// What the slow reads told last.
	voltage     unit.Volts
	temperature unit.Celsius
	status      Status
}

// abilities are the commands that not every firmware has, as Arm found them.
type abilities struct{ encoders, speeds, temperatures bool }

// axis is one joint: what it is, what it was told, and what is known of it.
type axis struct {
	joint   motor.Joint
	channel int     // 0 for M1, 1 for M2
	scale   float64 // counts for one unit of the joint, with sign

	counted   bool  // last holds a count
	last      int32 // as the unit told it
	count     int64 // accumulated across the unit's 32 bits
	speed     float64
	duty      unit.Ratio // on the motor: as commanded, or as the unit told it since
	current   unit.Amperes
	kind      kind // of the command that the unit carries out
	effort    unit.Effort
	source    motor.EffortSource
	power     unit.Watts
	still     int  // cycles that the encoder has stood still in spite of power
	unplugged bool // until the encoder counts again
}

var (
	_ motor.Group      = (*Group)(nil)
	_ motor.Identifier = (*Group)(nil)
)

// errNotArmed is what Read and Write say before Arm, and after the unit was found to have restarted.
var errNotArmed = fmt.Errorf("the unit is not armed: %w", link.Refused)

// Open makes the group of a unit's joints, without touching the port. The error joins every fault of the
// parameters and joints.
func Open(port io.ReadWriter, p Params, joints []motor.Joint) (*Group, error) {
	if err := p.check(joints); err != nil {
		return nil, err
	}
	g := &Group{client: newClient(port, p.Address), params: p}
	for _, j := range joints {
		g.axes = append(g.axes, axis{
			joint: j, channel: j.Channel - 1, scale: j.Transmission() * j.CountsPerRevolution / (2 * math.Pi),
		})
	}
	g.forget()
	return g, nil
}

// Identity is the unit that answered Arm.
func (g *Group) Identity() (id motor.Identity, known bool) { return g.identity, g.known }

// Stop sets both duties to 0, those of unused channels too. It tries a few times: no other command is as
// important, and this one may be repeated.
func (g *Group) Stop() error {
	if err := g.wait(g.params.ReplyTimeout); err != nil {
		return err
	}
	var err error
	for range attempts {
		if _, err = g.ask(DutyBoth, 0, 0); err == nil || link.Lost(err) {
			break
		}
	}
	for i := range g.axes {
		g.axes[i].sent(order{}, err)
	}
	return err
}

// attempts is how often Stop, and a step of Arm, is tried.
const attempts = 3

// forget drops every value that was read, so that none outlives a reconnection. The accumulated count
// stays: it is the joint's position, and the next count goes on from it.
func (g *Group) forget() {
	g.voltage = unit.Unknown[unit.Volts]()
	g.temperature = unit.Unknown[unit.Celsius]()
	g.status = Status{}
	g.cycle, g.turn = 0, 0
	for i := range g.axes {
		a := &g.axes[i]
		a.speed = math.NaN()
		a.current = unit.Unknown[unit.Amperes]()
		a.effort, a.source = unit.Unknown[unit.Effort](), motor.EffortUnknown
		a.power = unit.Unknown[unit.Watts]()
		a.still, a.unplugged = 0, false
	}
}

// advance takes the unit's count: the difference to the last one, as 32 bits wrap, is the way since.
func (a *axis) advance(count int32) {
	if !a.counted {
		a.counted, a.last, a.count = true, count, int64(count)
	}
	step := count - a.last // wraps as the unit's counter does
	a.count += int64(step)
	a.last = count
}

// position of the joint.
func (a *axis) position() unit.Position { return unit.Position(float64(a.count) / a.scale) }

// velocity of the joint; NaN if it is not read.
func (a *axis) velocity() unit.Velocity { return unit.Velocity(a.speed / a.scale) }

// motorSpeed is the speed of the motor's shaft, rad/s.
func (a *axis) motorSpeed() float64 { return a.speed * 2 * math.Pi / a.joint.CountsPerRevolution }

// modelled reports whether the motor is known well enough to reckon its current from duty and speed.
func (a *axis) modelled() bool { return a.joint.TorqueConstant > 0 && a.joint.WindingResistance > 0 }
