package roboclaw

import (
	"math"

	"hilgate/model/plant"
	"hilgate/model/unit"
)

// goal is what a motion of the simulated unit wants.
type goal uint8

const (
	toDuty     goal = iota // a duty; the state after power-up is duty 0
	toSpeed                // a speed, held until the next command
	toDistance             // a way at a speed; then the next in the queue, or speed 0
	toPosition             // a count; then the next in the queue, or it is held
)

var goalNames = [...]string{"duty", "speed", "distance", "position"}

// motion is one command, in the unit's terms. An acceleration of 0 is at once.
type motion struct {
	goal         goal
	duty         float64 // −1 to 1
	speed        int64   // counts/s
	accel, decel int64   // counts/s², or duty units per second
	target       int64   // counts: a way, or a position
}

// queueLength is how many commands a motor's queue holds; what comes beyond is dropped.
const queueLength = 64

// simMotor is one channel: its encoder, its loops and its half bridge.
type simMotor struct {
	unit    *Sim
	channel int
	axis    *plant.Joint // nil: nothing is connected

	// The encoder.
	perRadian   float64 // counts for one radian of the shaft
	shaft       float64 // the shaft in counts, when last looked at
	count       int32
	rest        float64 // the part of a count that was not counted yet
	unplugged   bool
	backward    bool
	under, over bool // the count has wrapped since it was last read

	// Its speed, counts/s.
	way, elapsed float64 // in the window of 1/300 s that runs
	phase        float64 // s since the last window was due to end
	fraction     float64 // of a count that the last windows left over
	raw          float64 // of the last window
	filtered     float64

	// What runs and what waits.
	now      motion
	idle     bool
	travel   float64 // counts since the motion began
	queue    []motion
	setSpeed float64 // of the velocity loop
	integral float64 // of its error
	previous float64 // error

	pwm     float64 // −1 to 1
	limited bool    // the current's limit holds the duty back
}

const (
	speedWindow = 1.0 / 300 // s
	filterTime  = 0.02      // s
)

// look reads the encoder.
func (m *simMotor) look() {
	if m.axis == nil {
		return
	}
	shaft := m.axis.MotorAngle() * m.perRadian
	moved := shaft - m.shaft
	m.shaft = shaft
	if m.unplugged {
		moved = 0
	}
	if m.unit.settings.encoderMode[m.channel]&encoderReversed != 0 {
		moved = -moved
	}
	m.way += moved
	m.rest += moved
	whole := math.Floor(m.rest)
	m.rest -= whole
	before := m.count
	m.count += int32(int64(whole)) // wraps as the unit's does
	switch {
	case whole > 0:
		m.backward = false
		m.over = m.over || m.count < before
	case whole < 0:
		m.backward = true
		m.under = m.under || m.count > before
	}
	m.travel += moved
}

// preset gives the encoder another count.
func (m *simMotor) preset(count int64) { m.count, m.rest = int32(count), 0 }

func (m *simMotor) flags() (f int64) {
	for bit, is := range [3]bool{m.under, m.backward, m.over} {
		if is {
			f |= 1 << bit
		}
	}
	return f
}

// begin drops the queue and runs a motion.
func (m *simMotor) begin(n motion) {
	m.queue = m.queue[:0]
	m.run(n)
}

func (m *simMotor) run(n motion) {
	wasDuty := m.now.goal == toDuty
	m.now, m.travel, m.idle = n, 0, n.goal == toDuty || n.goal == toSpeed
	if n.goal == toDuty {
		m.integral, m.previous, m.setSpeed = 0, 0, 0
		if n.accel == 0 {
			m.pwm = n.duty
		}
	} else if wasDuty {
		m.setSpeed = m.filtered
	}
}

// beginDuty is a duty command without an acceleration: the unit's setting counts.
func (m *simMotor) beginDuty(duty int64) {
	a := m.unit.settings.dutyAccel[2*m.channel:]
	m.begin(motion{goal: toDuty, duty: float64(Duty(duty)), accel: a[0], decel: a[1]})
}

// legacy is a duty from −127 to 127.
func (m *simMotor) legacy(v int64) {
	m.beginDuty(min(max(v, -127), 127) * FullDuty / 127)
}

// enqueue runs a motion at once (now = 1), or after those that wait.
func (m *simMotor) enqueue(n motion, now int64) {
	running := m.now.goal == toDistance || m.now.goal == toPosition
	switch {
	case now == atOnce, m.idle, !running:
		m.begin(n)
	case len(m.queue) < queueLength:
		m.queue = append(m.queue, n)
	}
}

// halt takes the power away and forgets what was to be done.
func (m *simMotor) halt() {
	m.begin(motion{goal: toDuty})
}

// profile is the speed of positions that name none. Its unit on the wire is not documented; it is taken
// for a part of QPPS in 1/32767.
func (m *simMotor) profile() int64 {
	return m.unit.settings.positionSpeed[m.channel] * m.unit.settings.velocity[m.channel][3] / FullDuty
}

// percent is a position between the position loop's bounds.
func (m *simMotor) percent(raw int64) int64 {
	p := &m.unit.settings.position[m.channel]
	return p[5] + int64((float64(raw)+FullDuty+1)/(2*FullDuty+1)*float64(p[6]-p[5]))
}

// step runs the loops for one step of the world.
func (m *simMotor) step(dt float64) {
	full := m.measure(dt)
	switch m.now.goal {
	case toDuty:
		rate := m.now.accel
		if math.Abs(m.now.duty) < math.Abs(m.pwm) {
			rate = m.now.decel
		}
		m.pwm = toward(m.pwm, m.now.duty, rateOf(rate, FullDuty)*dt)
		return
	case toSpeed:
		m.setSpeed = toward(m.setSpeed, float64(m.now.speed), rateOf(m.now.accel, 1)*dt)
	case toDistance:
		m.stepDistance(dt)
	case toPosition:
		m.stepPosition(dt)
	}
	if full {
		m.stepVelocity()
	}
}

// measure keeps the speeds, and reports whether a window of 1/300 s has ended: the velocity loop's beat.
// A window holds whole counts, so the raw speed is a multiple of 300 counts/s.
func (m *simMotor) measure(dt float64) (full bool) {
	m.elapsed += dt
	if m.phase += dt; m.phase < speedWindow {
		return false
	}
	m.phase -= speedWindow
	speed := m.way / m.elapsed
	m.fraction += speed * speedWindow
	whole := math.Floor(m.fraction)
	m.fraction -= whole
	m.raw = whole / speedWindow
	m.filtered += (speed - m.filtered) * m.elapsed / (filterTime + m.elapsed)
	m.way, m.elapsed = 0, 0
	return true
}

// stepDistance runs at the speed until the way is done. It brakes in time if nothing waits.
func (m *simMotor) stepDistance(dt float64) {
	rate := rateOf(m.now.accel, 1)
	left := float64(m.now.target) - math.Abs(m.travel)
	if left <= 0 || m.now.speed == 0 {
		if !m.next() {
			m.setSpeed = toward(m.setSpeed, 0, rate*dt)
		}
		return
	}
	speed := math.Abs(float64(m.now.speed))
	if len(m.queue) == 0 && m.now.accel > 0 {
		speed = min(speed, math.Sqrt(2*rate*left))
	}
	m.setSpeed = toward(m.setSpeed, math.Copysign(speed, float64(m.now.speed)), rate*dt)
}

// stepPosition makes the distance to the target a speed: P·d + I·∫d within its bounds, and never faster
// than can be braked.
func (m *simMotor) stepPosition(dt float64) {
	g := ParsePositionPID(m.unit.settings.position[m.channel][:])
	d := m.positionError()
	if math.Abs(d) <= float64(g.DeadZone)+1 && math.Abs(m.filtered) < 1/speedWindow && !m.idle {
		m.next()
	}
	if math.Abs(d) <= float64(g.DeadZone) {
		d = 0
	}
	bound := math.Abs(float64(m.now.speed))
	if m.now.decel > 0 {
		bound = min(bound, math.Sqrt(2*float64(m.now.decel)*math.Abs(d)))
	}
	speed := unit.Clamp(g.P*d-g.D*m.filtered*speedWindow, -bound, bound)
	rate := rateOf(m.now.accel, 1)
	if math.Abs(speed) < math.Abs(m.setSpeed) {
		rate = rateOf(m.now.decel, 1)
	}
	m.setSpeed = toward(m.setSpeed, speed, rate*dt)
}

// next runs what waits first, and reports whether anything did.
func (m *simMotor) next() bool {
	if len(m.queue) == 0 {
		m.idle = true
		return false
	}
	n := m.queue[0]
	m.queue = append(m.queue[:0], m.queue[1:]...)
	m.run(n)
	return true
}

// stepVelocity is the velocity loop, 300 times a second:
//
//	duty = (set + P·e + I·∫e dt + D·Δe) / QPPS     e = set − raw speed
func (m *simMotor) stepVelocity() {
	g := ParseVelocityPID(m.unit.settings.velocity[m.channel][:])
	if g.QPPS == 0 {
		m.pwm = 0
		return
	}
	e := m.setSpeed - m.raw
	integral := m.integral + e*speedWindow
	duty := (m.setSpeed + g.P*e + g.I*integral + g.D*(e-m.previous)) / float64(g.QPPS)
	if math.Abs(duty) < 1 {
		m.integral = integral // else it would wind up
	}
	m.previous = e
	m.pwm = unit.Clamp(duty, -1, 1)
}

// drive puts the duty on the winding, held back where the current would exceed its limit.
func (m *simMotor) drive() {
	if m.axis == nil {
		return
	}
	m.limited = false
	open := m.unit.status&errorBits != 0 || m.unit.settings.pwmMode[m.channel] == signMagnitude
	if m.pwm == 0 && open {
		m.axis.Release()
		return
	}
	v := m.pwm * float64(m.axis.Supply())
	if m.reversed() {
		v = -v
	}
	c := m.axis.Config()
	emf := c.TorqueConstant * m.axis.MotorSpeed()
	most := float64(Amperes(m.unit.settings.maxCurrent[m.channel][0])) * float64(c.WindingResistance)
	if folded := unit.Clamp(v, emf-most, emf+most); math.Abs(folded) < math.Abs(v) {
		if folded*v < 0 {
			folded = 0
		}
		v, m.limited = folded, true
		if s := float64(m.axis.Supply()); s > 0 {
			m.pwm = math.Copysign(math.Abs(v)/s, m.pwm)
		}
	}
	m.axis.Drive(unit.Volts(v))
}

func (m *simMotor) reversed() bool {
	return m.unit.settings.encoderMode[m.channel]&motorReversed != 0
}

// speedError is that of the velocity loop, counts/s.
func (m *simMotor) speedError() float64 {
	if m.now.goal == toDuty {
		return 0
	}
	return m.setSpeed - m.filtered
}

// positionError is what is left to a position, counts. The count wraps; so does what is left.
func (m *simMotor) positionError() float64 {
	if m.now.goal != toPosition {
		return 0
	}
	p := &m.unit.settings.position[m.channel]
	return float64(min(max(m.now.target, p[5]), p[6]) - int64(m.count))
}

func (m *simMotor) buffer() int64 {
	if m.idle && len(m.queue) == 0 {
		return int64(BufferIdle)
	}
	return int64(len(m.queue))
}

func (m *simMotor) rawDuty() int64 { return RawDuty(unit.Ratio(m.pwm)) }

func (m *simMotor) rawCurrent() int64 {
	if m.axis == nil {
		return 0
	}
	i := float64(m.axis.Current()) * 100
	if m.reversed() {
		i = -i
	}
	return wire16(i)
}

// roomTemperature is what the sensor of a channel without an axis has.
const roomTemperature = 25

func (m *simMotor) temperature() float64 {
	if m.axis == nil {
		return roomTemperature
	}
	return float64(m.axis.Temperature())
}

func (m *simMotor) rawTemperature() int64 {
	return held(math.Round(m.temperature()*10), 0, math.MaxUint16)
}

func (m *simMotor) truth() MotorTruth {
	t := MotorTruth{
		Duty: m.pwm, Count: m.count, Queued: len(m.queue), Encoder: !m.unplugged, SetSpeed: m.setSpeed,
		Controlled: goalNames[m.now.goal],
	}
	if m.axis != nil {
		if v, on := m.axis.Driven(); on {
			t.Output = float64(v)
		}
		t.Connected = true
		t.Position, t.Velocity = float64(m.axis.Position()), float64(m.axis.Velocity())
		t.Current, t.Winding = float64(m.axis.Current()), float64(m.axis.Temperature())
	}
	return t
}

// toward moves v to a target by no more than most.
func toward(v, target, most float64) float64 { return v + unit.Clamp(target-v, -most, most) }

// rateOf is an acceleration for toward; 0 on the wire is without a bound.
func rateOf(raw int64, scale float64) float64 {
	if raw == 0 {
		return math.Inf(1)
	}
	return float64(raw) / scale
}
