package roboclaw

import (
	"errors"
	"math"
	"time"

	"hilgate/drivers/sim"
	"hilgate/model/plant"
	"hilgate/motor"
)

// Sim is a unit seen from the wire, with the physics of a plant behind its outputs. It checks what a unit
// checks and is as silent about it. Its loops and its serial timeout run at the plant's steps.
//
// The firmware is closed, so the inside of its loops, its thresholds of temperature and its limits from the
// factory are this package's own; what crosses the wire is documented.
type Sim struct {
	addr     byte
	firmware Firmware
	world    *plant.World // nil: no time passes
	motors   [2]simMotor

	settings settings
	stored   settings // in the NVM
	eeprom   [256]uint16

	packet []byte        // what of a request is there
	deaf   bool          // until the next pause: nobody knows where the next packet starts
	heard  time.Duration // when the last byte came
	fed    time.Duration // when the last valid packet came
	late   bool          // the serial timeout has run out

	pin     bool // the emergency stop's input
	stopped bool // the emergency stop as the unit holds it
	hot     [2]bool
	status  uint32 // in the order of modern firmware
	ticks   uint32 // ms since power-up

	pace, turn mixed // of the mixed drive
	counts     PacketCounts
	values     [maxValues]int64
}

// mixed is one half of a mixed-drive command, −127 to 127.
type mixed struct {
	value int64
	given bool
}

var _ sim.Peer = (*Sim)(nil)

// The unit's temperature sensors warn and switch off at these, in °C; it is on again below the warning.
const (
	warmAt = 85
	hotAt  = 100
)

// supplyMargin is how near the limits of supply the unit begins to warn, in 0.1 V.
const supplyMargin = 5

// Texts of GetVersion.
const (
	modernVersion = "USB Roboclaw 2x15a v4.2.8\n"
	oldVersion    = "USB Roboclaw 2x15a v4.1.11\n"
)

// NewSim makes a unit whose outputs drive axes, one each joint, on the joint's channel. It has been
// commissioned: where a joint names the motor's speed at full duty, the velocity loop knows it. All else is
// as from the factory, the serial timeout off included. It makes itself known to the axes' world.
func NewSim(p Params, joints []motor.Joint, axes []*plant.Joint) *Sim {
	s := &Sim{addr: p.Address, packet: make([]byte, 0, maxPacket), settings: factory()}
	for i := range s.motors {
		s.motors[i] = simMotor{unit: s, channel: i, idle: true}
	}
	for i, a := range axes {
		j := &joints[i]
		m := &s.motors[j.Channel-1]
		m.axis, m.perRadian = a, j.CountsPerRevolution/(2*math.Pi)
		if j.MaxVelocity > 0 {
			perUnit := math.Abs(j.Transmission() * m.perRadian)
			s.settings.velocity[j.Channel-1][3] = int64(math.Round(float64(j.MaxVelocity) * perUnit))
		}
		if s.world == nil {
			s.world = a.World()
			s.world.OnStep(s.step)
		}
		m.shaft = a.MotorAngle() * m.perRadian
	}
	s.stored = s.settings
	return s
}

// SetFirmware makes it a unit of another generation.
func (s *Sim) SetFirmware(f Firmware) { s.firmware = f }

// SetEStop closes or opens the input of the emergency stop. That it is open again does not end the stop:
// see the Lock constants.
func (s *Sim) SetEStop(on bool) { s.pin = on }

// SetEncoder connects or unplugs the encoder of a channel, 1 or 2.
func (s *Sim) SetEncoder(channel int, connected bool) { s.motors[channel-1].unplugged = !connected }

// PowerCycle switches the unit off and on: counts and queues are gone, settings are those of the NVM.
func (s *Sim) PowerCycle() {
	s.settings = s.stored
	s.packet, s.deaf, s.late, s.fed = s.packet[:0], false, false, s.now()
	s.stopped, s.status, s.ticks = s.pin, 0, 0
	s.pace, s.turn = mixed{}, mixed{}
	for i := range s.motors {
		m := &s.motors[i]
		*m = simMotor{
			unit: s, channel: i, axis: m.axis, perRadian: m.perRadian, shaft: m.shaft,
			unplugged: m.unplugged, idle: true, queue: m.queue[:0],
		}
		m.drive()
	}
}

func (s *Sim) now() time.Duration {
	if s.world == nil {
		return 0
	}
	return s.world.Now()
}

// Feed takes bytes in any chunking and appends the answers to the packets that they complete. The world
// counts whole milliseconds, so a pause that measures 10 of them counts as longer than 10 ms.
func (s *Sim) Feed(dst, in []byte) []byte {
	now := s.now()
	if now-s.heard >= quietGap {
		s.packet, s.deaf = s.packet[:0], false
	}
	if len(in) > 0 {
		s.heard = now
	}
	for _, c := range in {
		if s.deaf {
			break
		}
		s.packet = append(s.packet, c)
		r, n, err := ParseRequest(s.packet, s.firmware)
		switch {
		case errors.Is(err, ErrPacket):
			s.counts.Damaged++
		case err != nil:
			s.counts.Unknown++
			s.deaf = true
		case n == 0:
			continue
		case r.Addr != s.addr:
			s.counts.Foreign++
		default:
			s.counts.Valid++
			s.fed, s.late = now, false
			dst = s.serve(dst, &r)
		}
		s.packet = s.packet[:0]
	}
	return dst
}

// serve carries out a valid packet, which is still in s.packet, and appends the answer.
func (s *Sim) serve(dst []byte, r *Request) []byte {
	if r.Command == GetVersion {
		text := modernVersion
		if s.firmware == Old {
			text = oldVersion
		}
		return AppendVersion(dst, s.packet, text)
	}
	n := 0
	if r.Command.form(s.firmware).write {
		if !s.obey(r) {
			return dst
		}
	} else {
		n = s.answer(r)
	}
	reply, err := AppendReply(dst, s.firmware, s.packet, s.values[:n]...)
	if err != nil {
		return dst // a setting of the other firmware, too large for this one's layout
	}
	return reply
}

// step is the firmware's millisecond.
func (s *Sim) step(now, dt time.Duration) {
	s.ticks += uint32(dt / time.Millisecond)
	if limit := time.Duration(s.settings.timeout[0]) * timeoutStep; limit > 0 && now-s.fed >= limit {
		s.late = true
	}
	s.watch()
	for i := range s.motors {
		m := &s.motors[i]
		m.look()
		if s.late || s.status&errorBits != 0 {
			m.halt()
		}
		m.step(dt.Seconds())
		m.drive()
	}
}

// watch finds the unit's errors and warnings.
func (s *Sim) watch() {
	var b uint32
	bit := func(is bool, f uint32) {
		if is {
			b |= f
		}
	}
	if s.pin {
		s.stopped = true
	} else if s.settings.lock[0] == LockAutomatic {
		s.stopped = false
	}
	bit(s.stopped, ErrorEStop)
	for i := range s.motors {
		t := s.motors[i].temperature()
		s.hot[i] = t >= hotAt || s.hot[i] && t >= warmAt
		bit(s.hot[i], ErrorTemperature<<i)
		bit(t >= warmAt, WarningTemperature<<i)
		bit(s.motors[i].limited, WarningCurrentM1<<i)
	}
	supply, limits := s.mainVoltage(), &s.settings.mainLimits
	bit(supply > limits[1], ErrorMainHigh)
	bit(supply < limits[0], ErrorMainLow)
	bit(supply > limits[1]-supplyMargin, WarningMainHigh)
	bit(supply < limits[0]+supplyMargin, WarningMainLow)
	s.status = b
}

// benchSupply is the main voltage of a unit without an axis, and logicSupply that of its own electronics.
const (
	benchSupply = 120
	logicSupply = 50
)

// mainVoltage is in 0.1 V.
func (s *Sim) mainVoltage() int64 {
	for i := range s.motors {
		if a := s.motors[i].axis; a != nil {
			return held(math.Round(float64(a.Supply())*10), 0, math.MaxUint16)
		}
	}
	return benchSupply
}

// PacketCounts is what became of the packets that arrived.
type PacketCounts struct {
	Valid   uint64 `json:"valid"`
	Damaged uint64 `json:"damaged"` // the CRC did not match
	Foreign uint64 `json:"foreign"` // for another address
	Unknown uint64 `json:"unknown"` // no command, or no address
}

// Truth is the unit as it really is, for whoever compares what was reported with it.
type Truth struct {
	Address     byte          `json:"address"`
	Firmware    string        `json:"firmware"`
	Timeout     float64       `json:"timeout_seconds"`    // the serial timeout as set; 0 is off
	PacketAge   float64       `json:"packet_age_seconds"` // since the last valid packet
	TimedOut    bool          `json:"timed_out"`
	Errors      []string      `json:"errors"`
	Warnings    []string      `json:"warnings"`
	MainVoltage float64       `json:"main_voltage_volts"`
	Packets     PacketCounts  `json:"packets"`
	Motors      [2]MotorTruth `json:"motors"`
}

// MotorTruth is one channel of a Truth.
type MotorTruth struct {
	Connected  bool    `json:"connected"`
	Duty       float64 `json:"duty"`                // as the outputs are driven, −1 to 1
	Output     float64 `json:"output_volts"`        // on the winding
	Position   float64 `json:"joint_position"`      // rad or m
	Velocity   float64 `json:"joint_velocity"`      // rad/s or m/s
	Current    float64 `json:"current_amperes"`     // in the winding
	Winding    float64 `json:"temperature_celsius"` // of the winding
	Count      int32   `json:"count"`               // as the unit counts
	Queued     int     `json:"queued"`              // commands behind the one that runs
	Encoder    bool    `json:"encoder"`             // it is plugged in
	SetSpeed   float64 `json:"set_speed"`           // of the velocity loop, counts/s
	Controlled string  `json:"controlled"`          // duty, speed, distance or position; idle
}

// Truth tells the unit's true state, as a Truth.
func (s *Sim) Truth() any {
	st := Status{Word: s.status}
	t := Truth{
		Address: s.addr, Firmware: s.firmware.String(),
		Timeout:   (time.Duration(s.settings.timeout[0]) * timeoutStep).Seconds(),
		PacketAge: (s.now() - s.fed).Seconds(), TimedOut: s.late,
		Errors: append([]string{}, st.Errors()...), Warnings: append([]string{}, st.Warnings()...),
		MainVoltage: float64(Volts(s.mainVoltage())), Packets: s.counts,
	}
	for i := range s.motors {
		t.Motors[i] = s.motors[i].truth()
	}
	return t
}

// held rounds v towards 0 within bounds.
func held(v, low, high float64) int64 { return int64(min(max(v, low), high)) }
