package sbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"periph.io/x/conn/v3/i2c"

	"hilgate/bms"
	"hilgate/drivers/smbus"
	"hilgate/model/link"
)

// Pack is a smart battery on a bus. It implements bms.Pack and bms.Identifier, and belongs to the goroutine
// that owns the bus.
//
// Each Read asks for voltage, current and status, and for as many of the slower registers as are due and
// as the time since the last Read allows; the first Read of a new pack asks for all. A Read fails if
// voltage, current or status could not be had; the slower registers only grow old.
type Pack struct {
	params   Params
	dev      *smbus.Device
	location string

	presence presence
	probeAt  time.Time // before it, a pack that is not there is not looked for
	since    time.Time // when it was first noticed
	tries    int       // to get to know it
	absence  error     // why it is not there

	// What was learned of the pack that is there; forgotten with it.
	spec       SpecInfo
	scale      Scale
	chip       Chip
	items      []item // the first fastItems of them are read at each poll
	cells      int
	cellTries  int       // to count them again
	countAt    time.Time // the next of these
	noSpec     int       // times in a row that SpecificationInfo was refused
	doubt      bool      // a poll failed: it may be another pack
	polled     time.Time // the last Read with the pack there
	heard      time.Time // the last good answer
	modeSet    time.Time // the last write of BatteryMode
	identity   bms.Identity
	identified bool
}

// presence is where the pack stands between plugged in and gone.
type presence uint8

const (
	absent    presence = iota
	detecting          // something answers, but not yet everything that is needed
	present
)

// errSwapped is another pack than before.
var errSwapped = errors.New("another pack")

// New makes a pack on a bus, without touching it.
func New(bus i2c.Bus, p Params) *Pack {
	location := p.Location
	if location == "" {
		location = fmt.Sprintf("%s/0x%02x", bus, p.Address)
	}
	return &Pack{params: p, location: location, dev: smbus.New(bus, p.Address, p.quirks()), absence: link.NACK}
}

// Read polls the pack; see bms.Pack. While no pack is there it looks for one once a second, and the error
// is that of the last look.
func (p *Pack) Read(ctx context.Context, at time.Time) (bms.Reading, error) {
	err := p.advance(ctx, at)
	if errors.Is(err, errSwapped) {
		p.lose(at, err)
		err = p.advance(ctx, at)
	}
	if p.presence == present && at.Sub(p.heard) >= p.params.AbsentAfter {
		p.lose(at, err)
	}
	return p.reading(at), err
}

func (p *Pack) advance(ctx context.Context, at time.Time) error {
	if p.presence == present {
		err := p.poll(ctx, at, false)
		p.polled = at
		return err
	}
	return p.detect(ctx, at)
}

// lose forgets the pack: the next one may be another.
func (p *Pack) lose(at time.Time, why error) {
	if why == nil {
		why = link.NACK
	}
	*p = Pack{params: p.params, dev: p.dev, location: p.location, absence: why, probeAt: at}
}

// poll reads voltage, current and status, and then slower registers that are due: all of them, or as many
// as the pace allows.
func (p *Pack) poll(ctx context.Context, at time.Time, all bool) error {
	defer p.countRefusals(at)
	err := p.readFast(ctx, at)
	if err != nil {
		p.doubt = true
		if breaks(err) || !p.heard.Equal(at) {
			return err
		}
	} else if p.doubt {
		if it := p.find(CmdSerialNumber); it != nil && !it.dropped { // it may be another pack by now
			if err := p.read(ctx, it, at); err != nil {
				return err
			}
		}
		p.expedite(CmdManufacturerName, CmdDeviceName, CmdManufactureDate)
		p.doubt = false
	}
	since := at.Sub(p.polled)
	for left := allowance(since); left > 0 || all; left-- {
		it := p.next(at, since/2, all)
		if it == nil {
			break
		}
		slow := p.read(ctx, it, at)
		if errors.Is(slow, errSwapped) || link.Lost(slow) || ctx.Err() != nil {
			return slow
		}
		if breaks(slow) {
			return err
		}
	}
	if slow := p.recount(ctx, at); link.Lost(slow) || ctx.Err() != nil {
		return slow
	}
	return err
}

// readFast reads voltage, current and status. The device tells by the status whether it was too busy to
// serve the transaction before, which is the one for the current.
func (p *Pack) readFast(ctx context.Context, at time.Time) (err error) {
	voltage, current, status := &p.items[0], &p.items[1], &p.items[2]
	for _, it := range []*item{voltage, current, status} {
		if it.dropped {
			continue
		}
		if e := p.read(ctx, it, at); e != nil && (err == nil || breaks(e)) {
			err = e
		}
		if breaks(err) {
			return err
		}
	}
	for _, pause := range [...]time.Duration{2 * time.Millisecond, 10 * time.Millisecond} {
		if err != nil || current.dropped || Status(status.word).Code() != CodeBusy {
			return err
		}
		if err := smbus.Pause(ctx, pause); err != nil {
			return err
		}
		if err = p.read(ctx, current, at); err == nil {
			err = p.read(ctx, status, at)
		}
	}
	if err == nil && Status(status.word).Code() == CodeBusy {
		current.forget()
		err = fmt.Errorf("current: device is busy: %w", link.Refused)
		p.dev.Counters().Failed(err)
	}
	return err
}

// breaks reports whether a failure makes further questions in the same poll pointless: each would wait for
// a time-out, or the port is gone, or nobody wants the answer any more.
func breaks(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch link.KindOf(err) {
	case link.Timeout, link.Stuck, link.IO, link.Closed:
		return true
	}
	return false
}

// read asks for one item and takes what it tells.
func (p *Pack) read(ctx context.Context, it *item, at time.Time) error {
	err := p.ask(ctx, it)
	it.due = at.Add(it.period)
	if err != nil {
		it.refused = link.KindOf(err) == link.NACK
		it.due = at.Add(p.again(it))
		return err
	}
	known := !it.good.IsZero()
	it.good, it.refusals, p.heard = at, 0, at
	if known && it.changed && it.identifies() {
		return errSwapped
	}
	return p.follow(ctx, it, at, it.changed || !known)
}

// ask gets an item from the pack into the item. It notes whether that changed it.
func (p *Pack) ask(ctx context.Context, it *item) error {
	switch {
	case it.cmd == CmdBlockAccess:
		data, err := p.selectRead(ctx, it.sub)
		if err != nil {
			return err
		}
		it.take(data)
	case it.isText():
		return p.readText(ctx, it)
	default:
		word, err := p.readWord(ctx, it)
		if err != nil {
			return err
		}
		it.changed, it.word = it.word != word, word
	}
	return nil
}

// readText reads a text. One that differs from the one before means another pack, and is believed only if
// it reads the same twice.
func (p *Pack) readText(ctx context.Context, it *item) error {
	data, err := p.dev.ReadBlock(ctx, it.cmd, MaxText, MaxText)
	if err != nil {
		return err
	}
	if !it.good.IsZero() && !bytes.Equal(data, it.block) {
		first := bytes.Clone(data)
		if data, err = p.dev.ReadBlock(ctx, it.cmd, MaxText, MaxText); err != nil {
			return err
		}
		if !bytes.Equal(data, first) {
			err = fmt.Errorf("register 0x%02x: %q, then %q: %w", it.cmd, first, data, link.Implausible)
			p.dev.Counters().Failed(err)
			return err
		}
	}
	it.take(data)
	return nil
}

// readWord reads a word and, if it differs from the one before by more than a pack can change, or may
// change what others mean, again until two more are like it. That is needed where there is no packet error
// code; where there is one it catches the one damaged frame in 256 that still fits its code.
func (p *Pack) readWord(ctx context.Context, it *item) (uint16, error) {
	was, known := it.word, !it.good.IsZero()
	word, err := p.dev.ReadWord(ctx, it.cmd)
	odd := func() bool { return !p.credible(it.cmd, word) || known && jumps(it.cmd, was, word) }
	if err != nil || !odd() {
		return word, err
	}
	for alike, again := 0, 0; again < 4; again++ {
		before := word
		if word, err = p.dev.ReadWord(ctx, it.cmd); err != nil || !odd() {
			return word, err
		}
		if jumps(it.cmd, before, word) {
			alike = 0
		} else if alike++; alike == 2 && p.credible(it.cmd, word) {
			return word, nil
		}
	}
	return 0, p.implausible(it.cmd, word)
}

// credible reports whether a word can be true at all. Without a packet error code an idle bus reads as a
// word of ones.
func (p *Pack) credible(cmd uint8, word uint16) bool {
	switch {
	case cmd <= CmdCell1 && cmd > CmdCell1-maxCellWords:
		return word != 0xffff
	case p.dev.PEC:
		return true
	case cmd == CmdBatteryStatus:
		return Status(word).Plausible()
	case cmd == CmdCurrent, cmd == CmdAverageCurrent, cmd == CmdAverageTimeToEmpty, cmd == CmdAverageTimeToFull,
		cmd == CmdChargingCurrent, cmd == CmdChargingVoltage, cmd == CmdSerialNumber, cmd == CmdCycleCount:
		return true // ones mean something there
	}
	return word != 0xffff
}

// jumps reports whether a word differs so much from the one before that it wants confirmation.
func jumps(cmd uint8, was, word uint16) bool {
	change := max(was, word) - min(was, word)
	part := func(n uint16) bool { return change > was/n }
	switch cmd {
	case CmdVoltage:
		return part(5)
	case CmdTemperature:
		return change > 100 // 10 K
	case CmdRelativeStateOfCharge:
		return change > 10
	case CmdCurrent, CmdAverageCurrent:
		i, wasI := int(int16(word)), int(int16(was))
		return abs(i-wasI) > max(2000, abs(wasI)/2)
	case CmdRemainingCapacity, CmdFullChargeCapacity, CmdDesignCapacity:
		return part(10)
	case CmdBatteryStatus:
		return (was^word)&^15 != 0
	case CmdBatteryMode:
		return Mode(was^word)&CapacityMode != 0
	case CmdSerialNumber, CmdManufactureDate:
		return change != 0
	}
	return cmd <= CmdCell1 && cmd > CmdCell1-maxCellWords && part(5)
}

func abs(x int) int { return max(x, -x) }

// macRounds is how often a sub-command is selected, macPause the wait after which one that was selected is
// asked for again: most answer within 5 ms, some need more.
const (
	macRounds = 3
	macPause  = 20 * time.Millisecond
)

// selectRead selects a sub-command and reads its answer, valid until the next call. Only sub-commands that
// change nothing are ever selected. A wrong echo, or none, has it done anew.
func (p *Pack) selectRead(ctx context.Context, sub uint16) (data []byte, err error) {
	if !Harmless(sub) {
		return nil, fmt.Errorf("sub-command 0x%04x is not one that only reads: %w", sub, link.Refused)
	}
	var number [2]byte
	for round := range macRounds {
		if round > 0 {
			if err := smbus.Pause(ctx, macPause); err != nil {
				return nil, err
			}
			p.dev.Counters().Retried()
		}
		if err := p.dev.WriteBlock(ctx, CmdBlockAccess, AppendMAC(number[:0], sub)); err != nil {
			return nil, fmt.Errorf("select 0x%04x: %w", sub, err)
		}
		var block []byte
		block, err = p.dev.ReadBlock(ctx, CmdBlockAccess, 2+macLen(sub), MaxMAC)
		if err == nil {
			if data, err = ParseMAC(block, sub); err == nil {
				return data, nil
			}
			p.dev.Counters().Failed(err)
		}
		if breaks(err) {
			break
		}
	}
	return nil, fmt.Errorf("sub-command 0x%04x: %w", sub, err)
}

// follow does what an answer asks for; fresh is one that differs from the one before.
func (p *Pack) follow(ctx context.Context, it *item, at time.Time, fresh bool) error {
	switch {
	case it.cmd == CmdBatteryMode:
		if fresh { // capacities that were read before are in the other unit
			for _, cmd := range [...]uint8{CmdRemainingCapacity, CmdFullChargeCapacity, CmdDesignCapacity} {
				p.find(cmd).forget()
			}
			p.expedite(CmdRemainingCapacity, CmdFullChargeCapacity, CmdDesignCapacity)
		}
		return p.setMode(ctx, it, at)
	case it.isText(), it.identifies(), it.sub == MACFirmwareVersion:
		if fresh {
			p.identify()
		}
	}
	return nil
}

// alarmRepeat is how long ALARM_MODE is trusted to stand: the pack clears it after 45 to 65 s (SBS 1.1,
// 5.1.4).
const alarmRepeat = 40 * time.Second

// setMode writes BatteryMode if the write policy asks for another, and reads it back. A pack that does not
// take it is asked again at the next turn.
func (p *Pack) setMode(ctx context.Context, it *item, at time.Time) error {
	mode := Mode(it.word)
	want := mode
	policy := p.params.WritePolicy
	if policy == WriteCapacityMode || policy == WriteFull {
		want &^= CapacityMode
	}
	if policy == WriteBroadcasts || policy == WriteFull {
		want |= ChargerMode | AlarmMode
	}
	aging := want&AlarmMode != 0 && policy >= WriteBroadcasts && at.Sub(p.modeSet) >= alarmRepeat
	if want == mode && !aging {
		return nil
	}
	if err := p.dev.WriteWord(ctx, CmdBatteryMode, uint16(want)); err != nil {
		return fmt.Errorf("battery mode: %w", err)
	}
	p.modeSet = at
	if err := smbus.Pause(ctx, 2*time.Millisecond); err != nil {
		return err
	}
	word, err := p.dev.ReadWord(ctx, CmdBatteryMode)
	if err != nil {
		it.forget()
		return fmt.Errorf("battery mode: %w", err)
	}
	it.word = word
	return nil
}

// Identity returns which pack this is; see bms.Identifier.
func (p *Pack) Identity() (id bms.Identity, known bool) { return p.identity, p.identified }

// Location is where the pack is: as configured, or the bus and the address.
func (p *Pack) Location() string { return p.location }

// PECActive reports whether packet error codes are in use with the pack that is there.
func (p *Pack) PECActive() bool { return p.presence == present && p.dev.PEC }

// Security tells how far the gauge is open to a host; known is false for gauges that do not tell.
func (p *Pack) Security() (s Security, known bool) {
	bits, known := p.bits(MACOperationStatus)
	return Operation(bits).Security(), known
}
