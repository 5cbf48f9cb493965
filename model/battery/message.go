package battery

import (
	"hilgate/bms"
	"hilgate/model/unit"
)

// Message is what Gazebo publishes after each unpaused step, in the scales and signs of gz.msgs.BatteryState.
type Message struct {
	Voltage    unit.Volts
	Current    unit.Amperes // positive while discharging, unless InvertCurrentSign is set
	Charge     unit.AmpereHours
	Capacity   unit.AmpereHours
	Percentage float64 // 0 to 100, or a ratio: see Quirks.RatioPercentage
	Status     bms.Status
}

// Message tells the present state.
func (b *Battery) Message() Message {
	m := Message{
		Voltage: unit.Volts(b.voltage), Current: unit.Amperes(b.current), Charge: unit.AmpereHours(b.charge),
		Capacity: b.config.Capacity, Percentage: b.soc * 100, Status: b.Status(),
	}
	if b.config.InvertCurrentSign {
		m.Current = -m.Current
	}
	if b.config.Quirks.RatioPercentage && !b.config.FixIssue225 {
		m.Percentage = b.soc
	}
	return m
}

// Status says where the current goes; with Quirks.StatusByFlags, what was ordered.
func (b *Battery) Status() bms.Status {
	if b.config.Quirks.StatusByFlags {
		switch {
		case b.charging:
			return bms.Charging
		case b.draining:
			return bms.Discharging
		case b.soc > 0.9:
			return bms.Full
		}
		return bms.NotCharging
	}
	switch {
	case b.current < 0:
		return bms.Charging
	case b.current > 0:
		return bms.Discharging
	case b.soc >= 1:
		return bms.Full
	}
	return bms.NotCharging
}
