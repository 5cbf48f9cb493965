package sbs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"hilgate/drivers/smbus"
	"hilgate/model/link"
	"hilgate/model/unit"
)

// A pack that is not there is looked for once a second; the little less lets a poll be early. One that
// answers has ten tries, or two seconds, to tell what is needed: some pull the detect line before their
// gauge is ready.
const (
	probePeriod = 950 * time.Millisecond
	meetPause   = 100 * time.Millisecond
	meetTries   = 10
	meetTime    = 2 * time.Second
	pecTrials   = 5
)

// detect looks for a pack if it is time to, gets to know one that answers, and reads all of it. A pack is
// looked for by reading BatteryStatus, not by an empty transaction, which some devices take for a write.
func (p *Pack) detect(ctx context.Context, at time.Time) error {
	if at.Before(p.probeAt) {
		return p.absence
	}
	p.dev.PEC = false
	if p.presence == absent {
		p.probeAt = at.Add(probePeriod)
		word, err := p.dev.ReadWord(ctx, CmdBatteryStatus)
		if err == nil && !Status(word).Plausible() {
			err = p.implausible(CmdBatteryStatus, word)
		}
		if err != nil {
			p.absence = fmt.Errorf("no pack: %w", err)
			return p.absence
		}
		p.presence, p.since, p.tries = detecting, at, 0
	}
	p.probeAt = at.Add(meetPause)
	p.tries++
	p.absence = p.meet(ctx, at)
	if p.absence == nil || p.met(at, p.absence) {
		p.presence, p.polled, p.identified = present, at, true
		p.identify()
	} else if p.tries >= meetTries || at.Sub(p.since) >= meetTime {
		p.presence, p.probeAt = absent, at.Add(probePeriod)
	}
	return p.absence
}

// meet learns how to speak with the pack, and reads all that it has.
func (p *Pack) meet(ctx context.Context, at time.Time) (err error) {
	if p.spec, err = p.learnSpec(ctx); err != nil {
		return fmt.Errorf("specification: %w", err)
	}
	p.scale = p.spec.Scale()
	p.scale.Voltage *= p.params.VoltageMultiplier
	p.scale.Current *= p.params.CurrentMultiplier
	if p.dev.PEC, err = p.tryPEC(ctx); err != nil {
		return fmt.Errorf("packet error codes: %w", err)
	}
	if p.chip, err = p.findChip(ctx); err != nil {
		return fmt.Errorf("device type: %w", err)
	}
	if p.cells, err = p.countCells(ctx); err != nil {
		return fmt.Errorf("count of cells: %w", err)
	}
	p.items, p.cellTries, p.countAt = schedule(p.params, p.chip, p.cells), 0, at.Add(p.params.SlowPeriod)
	return p.poll(ctx, at, true)
}

// met reports whether a pack that could not be met in full is there all the same: it told voltage and status,
// and is not merely too busy to tell its current.
func (p *Pack) met(at time.Time, err error) bool {
	if breaks(err) || errors.Is(err, link.Refused) || len(p.items) == 0 {
		return false
	}
	return p.find(CmdVoltage).good.Equal(at) && p.find(CmdBatteryStatus).good.Equal(at)
}

// learnSpec reads SpecificationInfo twice, since no packet error code protects it yet. A pack that refuses
// it again and again, and answers otherwise, has no such register, and neither codes nor factors.
func (p *Pack) learnSpec(ctx context.Context) (SpecInfo, error) {
	first, err := p.dev.ReadWord(ctx, CmdSpecificationInfo)
	if errors.Is(err, link.NACK) {
		if p.noSpec++; p.noSpec >= mostRefusals {
			return SpecInfo{}, nil
		}
	}
	if err != nil {
		return SpecInfo{}, err
	}
	second, err := p.dev.ReadWord(ctx, CmdSpecificationInfo)
	if err != nil {
		return SpecInfo{}, err
	}
	if first != second || first == 0 || first == 0xffff {
		return SpecInfo{}, p.implausible(CmdSpecificationInfo, second)
	}
	p.noSpec = 0
	return ParseSpecInfo(first), nil
}

// tryPEC decides whether packet error codes are used: never, if the pack does not claim to have them;
// yes, if three different registers carry them; no, if the three carry nothing in their place. Anything
// in between is a bad link, on which nothing is decided.
func (p *Pack) tryPEC(ctx context.Context) (bool, error) {
	switch {
	case p.params.PEC == PECOn:
		return true, nil
	case p.params.PEC == PECOff || !p.spec.ClaimsPEC():
		return false, nil
	}
	for range pecTrials {
		coded, bare := 0, 0
		registers := [...]byte{CmdVoltage, CmdBatteryStatus, CmdSpecificationInfo}
		for _, cmd := range registers {
			raw, err := p.dev.Peek(ctx, cmd, 3)
			if breaks(err) {
				return false, err
			}
			if err != nil {
				continue
			}
			word, _ := smbus.ParseWord(raw, p.params.Address, cmd, false)
			if _, err := smbus.ParseWord(raw, p.params.Address, cmd, true); err == nil {
				coded++
			} else if (raw[2] == 0xff || raw[2] == 0) && p.expected(cmd, word) {
				bare++
			}
		}
		switch len(registers) {
		case coded:
			return true, nil
		case bare:
			return false, nil
		}
	}
	err := fmt.Errorf("neither there nor missing in %d trials: %w", pecTrials, link.PEC)
	p.dev.Counters().Failed(err)
	return false, err
}

func (p *Pack) expected(cmd uint8, word uint16) bool {
	if cmd == CmdSpecificationInfo {
		return ParseSpecInfo(word) == p.spec
	}
	return p.credible(cmd, word)
}

// Device types that ManufacturerAccess tells (SLUUCH2, SLUUBD3D).
const (
	typeBQ40Z50 = 0x4500
	typeBQ78350 = 0x1e9b
)

// findChip asks for the device type. A gauge of another type is a BQ40Z80 if it tells of a fifth cell, and
// else read as a BQ40Z50.
func (p *Pack) findChip(ctx context.Context) (Chip, error) {
	if p.params.Chip != ChipAuto {
		return p.params.Chip, nil
	}
	data, err := p.selectRead(ctx, MACDeviceType)
	switch {
	case breaks(err) || errors.Is(err, link.PEC):
		return ChipAuto, err
	case err != nil || len(data) < 2:
		return ChipSBS, nil // no such port, or another use of it
	}
	switch uint16(data[0]) | uint16(data[1])<<8 {
	case typeBQ78350:
		return ChipBQ78350, nil
	case typeBQ40Z50:
		return ChipBQ40Z50, nil
	}
	data, err = p.selectRead(ctx, MACDAStatus3)
	switch {
	case breaks(err) || errors.Is(err, link.PEC):
		return ChipAuto, err
	case err == nil && len(data) >= lenDAStatus3:
		return ChipBQ40Z80, nil
	}
	return ChipBQ40Z50, nil
}

// Cell voltages that a gauge which is not known may tell; its words from CmdCell1 downwards may be
// something else.
const leastCell, mostCell unit.Volts = 0.5, 5.5

// countCells finds out of how many cells the gauge tells: up to the first that it refuses or has at zero.
func (p *Pack) countCells(ctx context.Context) (int, error) {
	if p.params.Cells > 0 {
		return p.params.Cells, nil
	}
	if p.chip == ChipBQ40Z80 {
		return p.countByDAStatus(ctx)
	}
	for n := range p.chip.maxCells() {
		word, err := p.dev.ReadWord(ctx, CmdCell1-uint8(n))
		if errors.Is(err, link.NACK) {
			word = 0
		} else if err != nil {
			return 0, err
		}
		v := DecodeMillivolts(word)
		if word == 0 || word == 0xffff || p.chip == ChipSBS && (v < leastCell || v > mostCell) {
			return n, nil
		}
	}
	return p.chip.maxCells(), nil
}

func (p *Pack) countByDAStatus(ctx context.Context) (int, error) {
	var volts []unit.Volts
	data, err := p.selectRead(ctx, MACDAStatus1)
	if err == nil {
		var d DAStatus1
		d, err = ParseDAStatus1(data)
		volts = append(volts, d.Cells[:]...)
	}
	if err != nil {
		return 0, err
	}
	if data, err = p.selectRead(ctx, MACDAStatus3); err == nil {
		if d, err := ParseDAStatus3(data); err == nil {
			volts = append(volts, d.Cells[:]...)
		}
	} else if breaks(err) || errors.Is(err, link.PEC) {
		return 0, err
	}
	for n, v := range volts {
		if v == 0 {
			return n, nil
		}
	}
	return len(volts), nil
}

// recount counts the cells again where the count cannot be right, since a busy gauge that refused one looks
// like a shorter pack. It does so once a slow period, a few times.
func (p *Pack) recount(ctx context.Context, at time.Time) error {
	if p.params.Cells > 0 || p.cellTries >= mostRefusals || at.Before(p.countAt) || p.cellsAddUp() {
		return nil
	}
	p.cellTries++
	p.countAt = at.Add(p.params.SlowPeriod)
	n, err := p.countCells(ctx)
	if err != nil || n == p.cells {
		return err
	}
	old := p.items
	p.items, p.cells = schedule(p.params, p.chip, n), n
	for i := range p.items {
		for j := range old {
			if p.items[i].cmd == old[j].cmd && p.items[i].sub == old[j].sub {
				p.items[i] = old[j]
			}
		}
	}
	return nil
}

// cellsAddUp reports whether the cells make the pack's voltage, within a twentieth.
func (p *Pack) cellsAddUp() bool {
	word, known := p.word(CmdVoltage)
	if !known {
		return true
	}
	sum, pack := 0.0, float64(p.scale.DecodeVoltage(word))
	for _, v := range p.cellVoltages() {
		sum += float64(v)
	}
	return math.Abs(sum-pack) <= pack/20
}

func (p *Pack) implausible(cmd uint8, word uint16) error {
	err := fmt.Errorf("register 0x%02x: 0x%04x: %w", cmd, word, link.Implausible)
	p.dev.Counters().Failed(err)
	return err
}
