package sbs

import (
	"bytes"
	"time"
)

// Limits beyond which a value is too old to be given.
const (
	fastLimit   = 5 * time.Second
	normalLimit = 5 * time.Second
	slowLimit   = 30 * time.Second
)

const (
	fastItems      = 3
	identityPeriod = 10 * time.Minute

	// A register that is refused so often, while others answer, is not there.
	mostRefusals = 5

	// pace is how many transactions a second a pack is asked for, beyond what polls more frequent than
	// every 150 ms make of it; leastSlow is how many slower registers even those ask for.
	pace      = 40
	leastSlow = 3

	// maxCellWords is how many cells a gauge can have words for, from CmdCell1 downwards.
	maxCellWords = 15
)

// item is one thing that a pack is asked for, and what it last told.
type item struct {
	cmd    uint8
	sub    uint16 // with CmdBlockAccess
	period time.Duration
	limit  time.Duration // beyond which the value is too old; 0 is never

	due     time.Time
	good    time.Time // of the last good answer; zero: none, or forgotten
	word    uint16
	block   []byte
	changed bool // by the last good answer

	refused  bool      // by the last poll that asked
	refusals int       // in a row
	counted  time.Time // the last of them
	dropped  bool      // it is not there
}

func (it *item) isText() bool { return it.cmd >= CmdManufacturerName && it.cmd <= CmdDeviceChemistry }

// identifies reports whether another value means another pack.
func (it *item) identifies() bool {
	switch it.cmd {
	case CmdSerialNumber, CmdManufactureDate, CmdManufacturerName, CmdDeviceName:
		return true
	}
	return false
}

func (it *item) take(data []byte) {
	it.changed = !bytes.Equal(it.block, data)
	it.block = append(it.block[:0], data...)
}

func (it *item) forget() { it.good = time.Time{} }

// schedule lists what a pack is asked for, in the order in which it is when all of it is due.
func schedule(p Params, chip Chip, cells int) []item {
	var items []item
	words := func(period, limit time.Duration, cmds ...uint8) {
		for _, cmd := range cmds {
			items = append(items, item{cmd: cmd, period: period, limit: limit})
		}
	}
	subs := func(period, limit time.Duration, subs ...uint16) {
		for _, sub := range subs {
			items = append(items, item{cmd: CmdBlockAccess, sub: sub, period: period, limit: limit})
		}
	}
	// Current and status are read back to back, so that sign and flags agree; mode just before capacity.
	words(0, fastLimit, CmdVoltage, CmdCurrent, CmdBatteryStatus)
	words(p.NormalPeriod, normalLimit, CmdTemperature, CmdRelativeStateOfCharge, CmdAverageCurrent,
		CmdBatteryMode, CmdRemainingCapacity)
	if chip == ChipBQ40Z80 {
		subs(p.NormalPeriod, normalLimit, MACDAStatus1)
		if cells > 4 {
			subs(p.NormalPeriod, normalLimit, MACDAStatus3)
		}
	} else {
		for i := range cells {
			words(p.NormalPeriod, normalLimit, CmdCell1-uint8(i))
		}
	}
	words(p.SlowPeriod, slowLimit, CmdFullChargeCapacity, CmdAverageTimeToEmpty, CmdAverageTimeToFull, CmdMaxError,
		CmdChargingCurrent, CmdChargingVoltage)
	words(p.SlowPeriod, 0, CmdSerialNumber)
	if chip.extended() {
		subs(p.SlowPeriod, slowLimit, MACOperationStatus, MACSafetyStatus, MACFailureStatus, MACDAStatus2)
	}
	words(identityPeriod, 0, CmdManufacturerName, CmdDeviceName, CmdDeviceChemistry, CmdDesignCapacity, CmdDesignVoltage,
		CmdManufactureDate, CmdCycleCount)
	if chip.extended() {
		words(identityPeriod, 0, CmdStateOfHealth)
		subs(identityPeriod, 0, MACFirmwareVersion)
	}
	return items
}

// allowance is how many slower items a poll may ask for, so long after the one before.
func allowance(since time.Duration) int {
	return max(leastSlow, int(min(since, time.Minute)*pace/time.Second)-fastItems)
}

// next finds the slower item that has been due the longest, if one will be due within slack. An item whose
// answer is known when its turn comes is passed over and forgotten.
func (p *Pack) next(at time.Time, slack time.Duration, all bool) *item {
	for {
		var first *item
		for i := fastItems; i < len(p.items); i++ {
			it := &p.items[i]
			if it.dropped || it.due.After(at.Add(min(slack, p.again(it)/2))) {
				continue
			}
			if first == nil || it.due.Before(first.due) {
				first = it
			}
		}
		if first == nil || !p.pointless(first, all) {
			return first
		}
		first.forget()
		first.due = at.Add(first.period)
	}
}

// again is how long after a failure an item is asked for anew.
func (p *Pack) again(it *item) time.Duration { return min(it.period, p.params.SlowPeriod) }

// pointless reports whether an item would tell nothing new: only one of the times to full and to empty
// can be a number, the safety and failure flags have a common bit each, and the sensors are wanted only
// where the pack has no temperature of its own. A new pack is asked all the same.
func (p *Pack) pointless(it *item, all bool) bool {
	average, flowing := p.word(CmdAverageCurrent)
	operation, told := p.bits(MACOperationStatus)
	switch {
	case it.sub == MACDAStatus2:
		_, known := p.word(CmdTemperature)
		return known
	case all:
		return false
	case it.cmd == CmdAverageTimeToEmpty:
		return flowing && int16(average) >= 0
	case it.cmd == CmdAverageTimeToFull:
		return flowing && int16(average) <= 0
	case it.sub == MACSafetyStatus:
		return told && Operation(operation)&SafetyActive == 0
	case it.sub == MACFailureStatus:
		return told && Operation(operation)&FailureActive == 0
	}
	return false
}

// countRefusals drops what is refused again and again while others answer. Refusals at short intervals
// count as one: a gauge may be busy for some tenths of a second.
func (p *Pack) countRefusals(at time.Time) {
	for i := range p.items {
		it := &p.items[i]
		if it.refused && p.heard.Equal(at) && at.Sub(it.counted) >= p.params.NormalPeriod/2 {
			it.counted = at
			it.refusals++
			it.dropped = it.refusals >= mostRefusals
		}
		it.refused = false
	}
}

// expedite makes items due at once.
func (p *Pack) expedite(cmds ...uint8) {
	for _, cmd := range cmds {
		if it := p.find(cmd); it != nil {
			it.due = time.Time{}
		}
	}
}

// find is the item of a command other than CmdBlockAccess; nil if it is not on the schedule.
func (p *Pack) find(cmd uint8) *item { return p.lookup(cmd, 0) }

func (p *Pack) lookup(cmd uint8, sub uint16) *item {
	for i := range p.items {
		if it := &p.items[i]; it.cmd == cmd && it.sub == sub {
			return it
		}
	}
	return nil
}

// word is what a register last told, if that was not forgotten.
func (p *Pack) word(cmd uint8) (word uint16, known bool) {
	if it := p.find(cmd); it != nil {
		return it.word, !it.good.IsZero()
	}
	return 0, false
}

// bits is what a status sub-command last told, if that was not forgotten.
func (p *Pack) bits(sub uint16) (bits uint32, known bool) {
	it := p.lookup(CmdBlockAccess, sub)
	if it == nil || it.good.IsZero() {
		return 0, false
	}
	bits, err := ParseBits(it.block)
	return bits, err == nil
}

// expire forgets values that have become too old.
func (p *Pack) expire(at time.Time) {
	for i := range p.items {
		if it := &p.items[i]; it.limit > 0 && !it.good.IsZero() && at.Sub(it.good) > it.limit {
			it.forget()
		}
	}
}
