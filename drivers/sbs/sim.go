package sbs

import (
	"time"

	"hilgate/drivers/sim"
	"hilgate/drivers/smbus"
	"hilgate/model/link"
	"hilgate/model/plant"
	"hilgate/model/unit"
)

// Sim is a smart battery seen from the wire: a gauge on a pack of the plant. It answers and refuses as a
// gauge does: packet error codes both ways, a refused byte for what is unknown, read-only or sealed, with
// the reason in BatteryStatus; voltage, current and temperature that are 250 ms old at most, and capacities
// a second; averages over a minute; alarms, the capacity mode, and the sub-commands of its chip.
//
// Its methods beside Tx are for the bench: what is done to it on purpose, and what it really is. They are
// to be called where Tx is, under the bench's lock.
type Sim struct {
	pack    *plant.Pack
	addr    byte // 7 bits
	chip    Chip
	spec    SpecInfo
	scale   Scale
	nominal unit.Volts // of the whole pack
	label   Label
	gauge   gauge

	// What hosts may set.
	mode      Mode
	modeSet   time.Duration // when ALARM_MODE was set
	capAlarm  uint16
	capSet    bool // by a host; else it is a tenth of the design capacity
	timeAlarm uint16
	atRate    int16

	// The state of the port.
	command  uint8 // that a read without one repeats
	code     ErrorCode
	sub      uint16 // selected last
	selected bool
	answer   []byte

	faults    simFaults
	safety    Safety // beside what the plant gives reason for
	failure   Failure
	sealed    bool
	writes    int // that had an effect
	dangerous int // selections that a driver must not send
}

// Label is what is printed on a pack, so to speak.
type Label struct {
	Manufacturer string `json:"manufacturer"`
	Device       string `json:"device"`
	Chemistry    string `json:"chemistry"`
	Manufactured Date   `json:"-"`
	Serial       uint16 `json:"serial"`
}

var _ sim.Target = (*Sim)(nil)

// NewSim puts a gauge on a pack. Of the parameters it takes address, chip (auto is by the number of cells),
// PEC (off is a gauge without), nominal voltage and the two multipliers. It is sealed, as packs are shipped.
func NewSim(p Params, pack *plant.Pack) *Sim {
	c := pack.Config()
	s := &Sim{
		pack: pack, addr: byte(p.Address), chip: p.Chip, sealed: true, timeAlarm: 10,
		mode: ChargerMode, nominal: p.NominalVoltage,
		label: Label{
			Manufacturer: "hilgate", Device: "simulated", Chemistry: "LION",
			Manufactured: NewDate(2024, time.February, 29), Serial: 0x0a1f,
		},
	}
	if s.chip == ChipAuto {
		switch n := pack.CellCount(); {
		case n <= ChipBQ40Z50.maxCells():
			s.chip = ChipBQ40Z50
		case n <= ChipBQ40Z80.maxCells():
			s.chip = ChipBQ40Z80
		default:
			s.chip = ChipBQ78350
		}
	}
	if s.nominal == 0 {
		s.nominal = c.E0 + c.E1/2
	}
	s.spec = SpecInfo{Revision: 1, Version: 3}
	if p.PEC == PECOff {
		s.spec.Version = 2
	}
	if s.chip == ChipBQ78350 || c.E0 > 65 {
		s.spec.VScale = 1
	}
	if c.Capacity > 32 {
		s.spec.IPScale = 1
	}
	s.scale = s.spec.Scale()
	s.scale.Voltage *= p.VoltageMultiplier
	s.scale.Current *= p.CurrentMultiplier
	s.gauge.sample(pack)
	s.gauge.count(pack)
	pack.World().OnStep(s.step)
	return s
}

// step is the gauge's own loop.
func (s *Sim) step(now, dt time.Duration) {
	s.gauge.step(s.pack, now, dt)
	if s.mode&AlarmMode != 0 && now-s.modeSet >= time.Minute {
		s.mode &^= AlarmMode
	}
}

// Tx is one transaction; see sim.Target.
func (s *Sim) Tx(w, r []byte) error {
	if s.faults.refuse() {
		s.code = CodeBusy
		return link.NACK
	}
	if len(w) > 0 {
		if err := s.take(w); err != nil {
			return err
		}
	}
	if len(r) == 0 {
		return nil
	}
	return s.give(len(w) > 0, r)
}

// pec reports whether the gauge appends and checks packet error codes.
func (s *Sim) pec() bool { return s.spec.ClaimsPEC() && !s.faults.liar }

// access is what a host may do with a command.
type access uint8

const (
	unknown access = iota
	readOnly
	wordPort
	blockPort
)

// take serves the part of a transaction that the host sends.
func (s *Sim) take(w []byte) error {
	cmd := w[0]
	may := s.access(cmd)
	if may == unknown {
		s.code = CodeUnsupportedCommand
		if cmd >= 0x1d && cmd <= 0x1f {
			s.code = CodeReservedCommand
		}
		return link.NACK
	}
	if cmd != CmdBatteryStatus {
		s.code = CodeOK
	}
	s.command = cmd
	if len(w) == 1 {
		return nil
	}
	if may == readOnly {
		s.code = CodeAccessDenied
		return link.NACK
	}
	size := 3
	if may == blockPort {
		size = 2 + int(w[1])
	}
	switch {
	case len(w) < size:
		s.code = CodeBadSize
		return nil
	case len(w) > size+1 || len(w) == size+1 && !s.pec():
		s.code = CodeBadSize
		return link.NACK
	case len(w) == size+1 && smbus.PEC(smbus.PEC(0, s.addr<<1), w...) != 0:
		s.code = CodeUnknownError
		return link.NACK
	}
	if may == blockPort {
		s.selectBlock(w[2:size])
	} else {
		s.set(cmd, uint16(w[1])|uint16(w[2])<<8)
	}
	return nil
}

// give serves the part that the host reads. named says that the host named the command in the same
// transaction; the packet error code covers it only then.
func (s *Sim) give(named bool, r []byte) error {
	var ok bool
	if s.answer, ok = s.appendRegister(s.answer[:0], s.command); !ok {
		s.code = CodeUnsupportedCommand
		return link.NACK
	}
	if s.command == CmdBatteryStatus {
		s.code = CodeOK
	}
	s.faults.damage(&s.answer)
	if s.pec() {
		crc := byte(0)
		if named {
			crc = smbus.PEC(0, s.addr<<1, s.command)
		}
		s.answer = append(s.answer, s.faults.spoil(smbus.PEC(smbus.PEC(crc, s.addr<<1|1), s.answer...)))
	}
	s.faults.cut(&s.answer)
	for i := copy(r, s.answer); i < len(r); i++ {
		r[i] = 0xff // nobody pulls the line low
	}
	return nil
}

// set writes a word that a host may write.
func (s *Sim) set(cmd uint8, word uint16) {
	s.writes++
	switch cmd {
	case CmdManufacturerAccess:
		s.writes--
		s.selectSub(word)
	case CmdRemainingCapacityAlarm:
		s.capAlarm, s.capSet = word, true
	case CmdRemainingTimeAlarm:
		s.timeAlarm = word
	case CmdBatteryMode:
		const writable = CapacityMode | ChargerMode | AlarmMode
		s.mode = s.mode&^writable | Mode(word)&writable
		s.modeSet = s.pack.World().Now()
	case CmdAtRate:
		s.atRate = int16(word)
	}
}

// selectBlock takes a block written to CmdBlockAccess.
func (s *Sim) selectBlock(data []byte) {
	if len(data) < 2 {
		s.code = CodeBadSize
		return
	}
	s.selectSub(at(data, 0))
}

// selectSub selects a sub-command. Those that do something are dropped while the gauge is sealed; of the
// others, the shutdown is played.
func (s *Sim) selectSub(sub uint16) {
	if Harmless(sub) {
		s.sub, s.selected = sub, true
		return
	}
	s.selected = false
	s.dangerous++
	switch {
	case s.sealed:
		s.code = CodeAccessDenied
	case sub == 0x0010:
		s.faults.gone = true
	}
}
