package drivertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"periph.io/x/conn/v3/i2c"

	"hilgate/bms"
	"hilgate/drivers"
	"hilgate/drivers/sim"
	"hilgate/model/link"
	"hilgate/model/plant"
	"hilgate/model/unit"
	"hilgate/motor"
)

// The drivers below are as small as a driver can be that passes the suite. Each takes the name of one
// defect, with which the suite must fail it.
type params struct {
	Defect string `yaml:"defect"`
}

func (params) BusAddress() uint16 { return 0x42 }

var be = binary.BigEndian

// sum is a CRC-16 (polynomial 0x1021, from 0) of what is on the wire.
func sum(b []byte) (crc uint16) {
	for _, c := range b {
		crc ^= uint16(c) << 8
		for range 8 {
			carry := crc & 0x8000
			if crc <<= 1; carry != 0 {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

func packSpec() drivers.Spec {
	return drivers.I2CPack("fake", "a pack for testing the suite", params{},
		func(b i2c.Bus, p params) (bms.Pack, error) { return &fakePack{bus: b, defect: p.Defect}, nil },
		func(p params, pack *plant.Pack) sim.Target { return &fakeTarget{pack} })
}

// fakePack reads one register of voltage, current, temperature and state of charge, big-endian in
// thousandths, and a CRC over register and data.
type fakePack struct {
	bus    i2c.Bus
	defect string
}

func (p *fakePack) Read(ctx context.Context, _ time.Time) (bms.Reading, error) {
	r := bms.Unmeasured()
	if err := ctx.Err(); err != nil && p.defect != "deaf" {
		return r, err
	}
	reg, b := []byte{7}, make([]byte, 18)
	if err := p.bus.Tx(0x42, reg, b); err != nil {
		switch p.defect {
		case "kindless":
			return r, errors.New("it did not work")
		case "zero":
			r.Voltage = 0
		case "slow":
			time.Sleep(time.Minute)
		case "quiet":
			return r, nil
		}
		return r, fmt.Errorf("reading: %w", err)
	}
	if sum(append(reg, b[:16]...)) != be.Uint16(b[16:]) && p.defect != "unchecked" {
		return r, fmt.Errorf("reading: %w", link.CRC)
	}
	value := func(i int) float64 { return float64(int32(be.Uint32(b[4*i:]))) / 1000 }
	r.Present = true
	r.Voltage, r.Current = unit.Volts(value(0)), unit.Amperes(value(1))
	r.Temperature, r.SoC = unit.Celsius(value(2)), unit.Ratio(value(3))
	if p.defect == "sign" {
		r.Current = -r.Current
	}
	return r, nil
}

type fakeTarget struct{ pack *plant.Pack }

func (f *fakeTarget) Tx(w, r []byte) error {
	if len(w) != 1 {
		return link.NACK
	}
	b := []byte{w[0]}
	for _, v := range []float64{float64(f.pack.Voltage()), float64(f.pack.Current()), float64(f.pack.Temperature()), float64(f.pack.SoC())} {
		b = be.AppendUint32(b, uint32(int32(math.Round(v*1000))))
	}
	b = be.AppendUint16(b, sum(b))
	if w[0] != 7 {
		b[1] ^= 0xff // another register
	}
	copy(r, b[1:])
	return nil
}

func groupSpec() drivers.Spec {
	return drivers.SerialGroup("fake", "a controller for testing the suite", params{}, drivers.GroupDriver[params]{
		Open: func(port io.ReadWriter, p params, joints []motor.Joint) (motor.Group, error) {
			return &fakeGroup{port: port, joints: joints, defect: p.Defect}, nil
		},
		Peer: func(p params, _ []motor.Joint, axes []*plant.Joint) sim.Peer {
			f := &fakeController{axes: axes, defect: p.Defect}
			axes[0].World().OnStep(f.step)
			return f
		},
		CycleBytes: func(params, []motor.Joint) int { return 0 },
	})
}

// A frame is [0xa5] [sequence] [command] [joint] [value, 8 bytes] [CRC], either way.
const frameSize = 14

const (
	cmdArm = iota
	cmdDrive
	cmdPosition
)

func appendFrame(dst []byte, seq, cmd, joint byte, value float64) []byte {
	at := len(dst)
	dst = append(dst, 0xa5, seq, cmd, joint)
	dst = be.AppendUint64(dst, math.Float64bits(value))
	return be.AppendUint16(dst, sum(dst[at:]))
}

// nextFrame cuts the first sound frame out of b and says where it ends; ok is false if there is none yet.
func nextFrame(b []byte, unchecked bool) (frame []byte, end int, ok bool) {
	for i := 0; i+frameSize <= len(b); i++ {
		f := b[i : i+frameSize]
		if f[0] == 0xa5 && (unchecked || sum(f[:frameSize-2]) == be.Uint16(f[frameSize-2:])) {
			return f, i + frameSize, true
		}
	}
	return nil, 0, false
}

type fakeGroup struct {
	port    io.ReadWriter
	joints  []motor.Joint
	defect  string
	armed   bool
	seq     byte
	out, in []byte
	buf     [64]byte
}

func (g *fakeGroup) ask(cmd, joint byte, value float64) (float64, error) {
	g.seq++
	g.out = appendFrame(g.out[:0], g.seq, cmd, joint, value)
	if g.defect == "allocates" {
		g.out = append([]byte(nil), g.out...)
	}
	if _, err := g.port.Write(g.out); err != nil {
		return 0, err
	}
	g.in = g.in[:0]
	for {
		n, err := g.port.Read(g.buf[:])
		if err != nil {
			return 0, err
		}
		g.in = append(g.in, g.buf[:n]...)
		for {
			f, end, ok := nextFrame(g.in, g.defect == "unchecked")
			if !ok {
				break
			}
			if f[1] == g.seq && f[2] == cmd && f[3] == joint {
				return math.Float64frombits(be.Uint64(f[4:])), nil
			}
			g.in = g.in[:copy(g.in, g.in[end:])]
		}
	}
}

func (g *fakeGroup) Arm() error {
	g.armed = false
	if g.defect != "keeps power" {
		if _, err := g.ask(cmdArm, 0, 0.2); err != nil {
			return err
		}
	}
	g.armed = true
	return nil
}

func (g *fakeGroup) Read(fb []motor.Feedback) error {
	for i := range fb {
		p, err := g.ask(cmdPosition, byte(i), 0)
		if err != nil {
			return err
		}
		fb[i].Position = unit.Position(p)
	}
	return nil
}

func (g *fakeGroup) Write(cmd []motor.Command) error {
	if !g.armed && g.defect != "early" {
		return fmt.Errorf("not armed: %w", link.Refused)
	}
	for i, c := range cmd {
		volts := 0.0
		if c.Mode == motor.ModeEffort {
			volts = 10 * float64(c.Effort)
		}
		if !unit.Finite(volts) {
			if volts = 0; g.defect == "nan" {
				volts = 12
			}
		}
		if _, err := g.ask(cmdDrive, byte(i), volts); err != nil {
			return err
		}
	}
	return nil
}

func (g *fakeGroup) Stop() error {
	if g.defect == "runs on" {
		return nil
	}
	var failed error
	for i := range g.joints {
		_, err := g.ask(cmdDrive, byte(i), 0)
		failed = errors.Join(failed, err)
	}
	return failed
}

type fakeController struct {
	axes   []*plant.Joint
	defect string
	in     []byte
	quiet  time.Duration
}

func (f *fakeController) step(_, dt time.Duration) {
	if f.quiet += dt; f.quiet > 200*time.Millisecond && f.defect != "no failsafe" {
		for _, a := range f.axes {
			a.Drive(0)
		}
	}
}

func (f *fakeController) Feed(dst, in []byte) []byte {
	f.in = append(f.in, in...)
	for {
		frame, end, ok := nextFrame(f.in, f.defect == "unchecked")
		if !ok {
			break
		}
		f.quiet = 0
		seq, cmd, joint, value := frame[1], frame[2], frame[3], math.Float64frombits(be.Uint64(frame[4:]))
		if int(joint) < len(f.axes) {
			switch cmd {
			case cmdArm:
				for _, a := range f.axes {
					a.Drive(0)
				}
			case cmdDrive:
				f.axes[joint].Drive(unit.Volts(value))
			case cmdPosition:
				value = float64(f.axes[joint].Position())
			}
			dst = appendFrame(dst, seq, cmd, joint, value)
		}
		f.in = f.in[:copy(f.in, f.in[end:])]
	}
	if n := len(f.in) - 4*frameSize; n > 0 {
		f.in = f.in[:copy(f.in, f.in[n:])]
	}
	return dst
}
