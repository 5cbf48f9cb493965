package wire

import (
	"strconv"

	"hilgate/bms"
	"hilgate/model/unit"
)

// MaxCells is the most cells of one BatteryState: HORUS's message has 16 slots.
const MaxCells = 16

// horusStatus maps a status to HORUS's numbers: 0 unknown, 1 charging, 2 discharging, 3 full. It has none
// for "not charging"; x_power_supply_status_ros keeps the difference.
var horusStatus = [...]byte{
	bms.StatusUnknown: '0', bms.Charging: '1', bms.Discharging: '2', bms.NotCharging: '0', bms.Full: '3',
}

// AppendBatteryState appends the BatteryState of a pack as JSON: the ten members of HORUS's message in its
// order, narrowed to its float32, then the gateway's own, whose names begin with x_.
//
// percentage is 0–100. current is negative while the pack discharges. charge, capacity and percentage are
// the filter's, or the gauge's own where there is no estimate; voltage, current, temperature and cells are
// measured, and null once the pack has been silent too long. cell_voltages has 16 elements, zero beyond
// cell_count, null for a cell that could not be read. timestamp_ns is the instant of the last good reading,
// 0 if there was none.
//
// A pack of more than 16 cells has cell_count 0 here: its cells are in the messages of AppendSegment.
func AppendBatteryState(dst []byte, p *bms.State) []byte {
	cells := p.Reading.Cells
	if len(cells) > MaxCells {
		cells = nil
	}
	return appendBattery(dst, p, p.Reading.Voltage, cells)
}

// Segments is the number of messages that AppendSegment can make of a pack: 0 if its cells fit one message.
func Segments(p *bms.State) int {
	if n := len(p.Reading.Cells); n > MaxCells {
		return (n + MaxCells - 1) / MaxCells
	}
	return 0
}

// AppendSegment appends the BatteryState of segment k of a pack of more than 16 cells: up to 16 cells from
// cell 16·k on, and their sum as voltage. All else is the whole pack's.
func AppendSegment(dst []byte, p *bms.State, k int) []byte {
	cells := p.Reading.Cells[k*MaxCells:]
	cells = cells[:min(len(cells), MaxCells)]
	var sum unit.Volts
	for _, v := range cells {
		sum += v
	}
	return appendBattery(dst, p, sum, cells)
}

func appendBattery(dst []byte, p *bms.State, voltage unit.Volts, cells []unit.Volts) []byte {
	r, e := &p.Reading, &p.Estimate
	soc, charge, capacity := e.SoC, e.Charge, e.Capacity
	if !unit.Known(soc) {
		soc, charge, capacity = r.SoC, r.Charge, r.Capacity
	}
	dst = append(dst, `{"voltage":`...)
	dst = appendNarrow(dst, voltage)
	dst = append(dst, `,"current":`...)
	dst = appendNarrow(dst, r.Current)
	dst = append(dst, `,"charge":`...)
	dst = appendNarrow(dst, charge)
	dst = append(dst, `,"capacity":`...)
	dst = appendNarrow(dst, capacity)
	dst = append(dst, `,"percentage":`...)
	dst = appendNarrow(dst, 100*unit.Clamp(soc, 0, 1))
	status := p.Status
	if int(status) >= len(horusStatus) {
		status = bms.StatusUnknown
	}
	dst = append(dst, `,"power_supply_status":`...)
	dst = append(dst, horusStatus[status])
	dst = append(dst, `,"temperature":`...)
	dst = appendNarrow(dst, r.Temperature)
	dst = append(dst, `,"cell_voltages":[`...)
	for i := range MaxCells {
		if i > 0 {
			dst = append(dst, ',')
		}
		if i < len(cells) {
			dst = appendNarrow(dst, cells[i])
		} else {
			dst = append(dst, '0')
		}
	}
	dst = append(dst, `],"cell_count":`...)
	dst = strconv.AppendInt(dst, int64(len(cells)), 10)
	dst = append(dst, `,"timestamp_ns":`...)
	dst = strconv.AppendInt(dst, nanoseconds(p.At), 10)

	dst = append(dst, `,"x_stamp":`...)
	dst = appendStamp(dst, p.At)
	dst = append(dst, `,"x_quality":"`...)
	dst = append(dst, p.Quality.String()...)
	dst = append(dst, `","x_power_supply_status_ros":`...)
	dst = append(dst, '0'+byte(status))
	dst = append(dst, `,"x_health_ros":`...)
	dst = strconv.AppendInt(dst, int64(r.Health), 10)
	dst = append(dst, `,"x_faults":`...)
	dst = appendSet(dst, r.Faults, bms.FaultNames())
	dst = append(dst, `,"x_cell_count":`...)
	dst = strconv.AppendInt(dst, int64(len(r.Cells)), 10)
	dst = append(dst, `,"x_power_w":`...)
	dst = appendMilli(dst, float64(r.Voltage)*float64(r.Current))
	dst = append(dst, `,"x_load_w":`...)
	dst = appendMilli(dst, p.Load)
	dst = append(dst, `,"x_time_to_empty_s":`...)
	dst = appendMilli(dst, e.TimeToEmpty)
	dst = append(dst, `,"x_time_to_full_s":`...)
	dst = appendMilli(dst, e.TimeToFull)
	dst = append(dst, `,"x_soh":`...)
	dst = appendMilli(dst, r.SoH)
	dst = append(dst, `,"x_cycles":`...)
	dst = appendMilli(dst, r.Cycles)
	dst = append(dst, `,"x_energy_in_wh":`...)
	dst = appendMilli(dst, p.EnergyIn/3600)
	dst = append(dst, `,"x_energy_out_wh":`...)
	dst = appendMilli(dst, p.EnergyOut/3600)
	dst = append(dst, `,"x_empty":`...)
	dst = appendBool(dst, p.Empty)
	dst = append(dst, `,"x_draining":`...)
	dst = appendBool(dst, p.Draining)
	dst = append(dst, `,"x_charger_on":`...)
	dst = appendBool(dst, p.ChargerOn)
	return append(dst, '}')
}

// batteryMark is a fingerprint of what makes a BatteryState news: status, quality, health, faults and the
// switches, but no measured value.
func batteryMark(p *bms.State) uint64 {
	mark := uint64(p.Reading.Faults)<<32 | uint64(p.Status)<<24 | uint64(p.Quality)<<16 | uint64(p.Reading.Health)<<8
	for i, b := range [...]bool{p.Empty, p.Draining, p.ChargerOn, p.Reading.Present} {
		if b {
			mark |= 1 << i
		}
	}
	return mark
}

// packAvailability is online as long as the pack answers, or did so recently.
func packAvailability(p *bms.State) string {
	if p.Quality == bms.Measured || p.Quality == bms.Estimated {
		return Online
	}
	return Offline
}

// AppendPowerLoad appends the draw of one consumer as the gateway tells it: {"data":12.5,"x_source":"gateway"}.
// MQTT 3.1.1 sends a client its own messages back; by x_source the gateway knows them (see IsEcho).
func AppendPowerLoad(dst []byte, w unit.Watts) []byte {
	dst = append(dst, `{"data":`...)
	dst = appendFloat(dst, float64(w))
	return append(dst, `,"x_source":"gateway"}`...)
}
