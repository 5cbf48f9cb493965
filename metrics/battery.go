package metrics

import (
	"math"
	"strconv"
	"time"

	"hilgate/bms"
	"hilgate/model/unit"
)

// Sources of a charge: what the pack's own gauge tells, the fused filter, and counting alone.
const (
	byGauge    = "gauge"
	byFilter   = "filter"
	byCounting = "coulomb"
)

// packSensor is the sensor label of the pack's own figure of its temperature; cell sensors are numbered.
const packSensor = "pack"

const coulombsPerAmpereHour = 3600

// batteryFamilies tell of the packs.
type batteryFamilies struct {
	up, lastSample, polls, failures, rejected family // of the exchange
	low, critical                             family // of the configuration

	info, quality, status, faults                             family
	volts, amperes, watts, temperature, cell, spread          family
	soc, sigma, charge, capacity, designCapacity, soh, cycles family
	openCircuit, modelVolts, resistance, residual             family
	toEmpty, toFull                                           family

	empty, draining, charger, load, energy, moved family // the gateway's own
}

func newBatteryFamilies(c *catalogue) batteryFamilies {
	return batteryFamilies{
		up: c.gauge("battery_up",
			"1 if the last poll of the pack succeeded and is fresh, else 0.", "battery"),
		lastSample: c.gauge("battery_last_sample_timestamp_seconds",
			"When the pack last told its values, Unix time.", "battery"),
		polls:    c.counter("battery_polls_total", "Polls of the pack.", "battery"),
		failures: c.counter("battery_poll_failures_total", "Polls of the pack that failed.", "battery"),
		rejected: c.counter("battery_samples_rejected_total",
			"Readings that arrived whole and cannot be true, so that they were not used.", "battery", "reason"),
		low: c.gauge("battery_low_threshold_ratio",
			"State of charge below which the pack counts as low, as configured.", "battery"),
		critical: c.gauge("battery_critical_threshold_ratio",
			"State of charge below which the pack counts as critical, as configured.", "battery"),

		info: c.gauge("battery_info", "What the pack says of itself; always 1.",
			"battery", "driver", "manufacturer", "device_name", "serial", "chemistry", "cells"),
		quality: c.gauge("battery_quality",
			"How far the pack's values can be trusted: the one that is 1.", "battery", "quality"),
		status: c.gauge("battery_status", "Where the current goes: the one that is 1.", "battery", "status"),
		faults: c.gauge("battery_fault", "1 for each fault that the pack's protection reports.", "battery", "fault"),

		volts: c.gauge("battery_volts", "Voltage at the pack's terminals, as measured.", "battery"),
		amperes: c.gauge("battery_current_amperes",
			"Current into the pack, as measured: negative while it discharges.", "battery"),
		watts: c.gauge("battery_power_watts",
			"Measured voltage times current: negative while the pack supplies.", "battery"),
		temperature: c.gauge("battery_temperature_celsius",
			"Temperature of the pack, and of each sensor at its cells.", "battery", "sensor"),
		cell: c.gauge("battery_cell_volts", "Voltage of a cell; 0 is the most negative one.", "battery", "cell"),
		spread: c.gauge("battery_cell_spread_volts",
			"Voltage of the highest cell minus that of the lowest.", "battery"),

		soc: c.gauge("battery_state_of_charge_ratio",
			"State of charge by the pack's gauge, by counting current, and by the filter over both and the model.",
			"battery", "source"),
		sigma: c.gauge("battery_state_of_charge_stddev_ratio",
			"Standard deviation of the filter's state of charge.", "battery"),
		charge: c.gauge("battery_charge_coulombs",
			"Charge left, by the pack's gauge and by the filter.", "battery", "source"),
		capacity: c.gauge("battery_capacity_coulombs",
			"Charge of the full pack, by its gauge and as the filter has it.", "battery", "source"),
		designCapacity: c.gauge("battery_design_capacity_coulombs", "Charge of the full pack when new.", "battery"),
		soh: c.gauge("battery_state_of_health_ratio",
			"Capacity left of the design capacity, as the pack tells.", "battery"),
		cycles: c.counter("battery_cycles_total",
			"Full cycles of the pack since new, as it tells: falls when the pack is swapped.", "battery"),

		openCircuit: c.gauge("battery_open_circuit_volts",
			"Open-circuit voltage of the model at the filter's charge; estimated.", "battery"),
		modelVolts: c.gauge("battery_model_volts", "Terminal voltage that the model predicts.", "battery"),
		resistance: c.gauge("battery_internal_resistance_ohms", "Internal resistance; estimated.", "battery"),
		residual: c.gauge("battery_model_residual_volts",
			"Measured minus predicted terminal voltage: lasting offsets tell of ageing, wiring or a lying sensor.",
			"battery"),
		toEmpty: c.gauge("battery_time_to_empty_seconds",
			"Time until the pack is empty at the present current; estimated.", "battery"),
		toFull: c.gauge("battery_time_to_full_seconds",
			"Time until the pack is full at the present current; estimated.", "battery"),

		empty: c.gauge("battery_empty", "1 if the pack counts as drained, so that what it feeds may not run.", "battery"),
		draining: c.gauge("battery_draining",
			"1 if the loads configured on the pack's model are switched on.", "battery"),
		charger: c.gauge("battery_charger_on", "1 if recharging was started and not stopped.", "battery"),
		load: c.gauge("battery_load_watts",
			"Power that the configured loads and the joints are known to draw.", "battery"),
		energy: c.counter("battery_energy_joules_total",
			"Energy that went into the pack (charge) and out of it (discharge).", "battery", "direction"),
		moved: c.counter("battery_charge_throughput_coulombs_total",
			"Charge that went into the pack (charge) and out of it (discharge).", "battery", "direction"),
	}
}

// collect tells of one configured pack at the instant now. s is nil if the snapshot does not know it.
//
// What a pack told, and what was estimated from it, leaves the page once the last reading is older than
// the pack's StaleAfter: then battery_up and the time of the last reading say so, with what the gateway
// itself knows or counts.
func (f *batteryFamilies) collect(p page, now time.Time, config *Pack, s *bms.State) {
	name := config.Name
	p.put(f.low, float64(config.Low), name)
	p.put(f.critical, float64(config.Critical), name)
	if s == nil {
		s = &bms.State{}
	}
	fresh := s.Quality == bms.Measured || s.Quality == bms.Estimated
	quality := s.Quality
	if fresh && config.StaleAfter > 0 && now.Sub(s.At) > config.StaleAfter {
		fresh, quality = false, bms.Stale
	}
	p.flag(f.up, fresh && quality == bms.Measured, name)
	p.put(f.lastSample, instant(s.At), name)
	p.put(f.polls, float64(s.Polls), name)
	p.put(f.failures, float64(s.Failures), name)
	for r, n := range s.Rejected {
		p.put(f.rejected, float64(n), name, bms.Reject(r).String())
	}
	p.one(f.quality, qualityNames(), int(quality), name)
	p.flag(f.empty, s.Empty, name)
	p.flag(f.draining, s.Draining, name)
	p.flag(f.charger, s.ChargerOn, name)
	p.put(f.load, float64(s.Load), name)
	p.put(f.energy, float64(s.EnergyIn), name, "charge")
	p.put(f.energy, float64(s.EnergyOut), name, "discharge")
	p.put(f.moved, float64(s.ChargeIn)*coulombsPerAmpereHour, name, "charge")
	p.put(f.moved, float64(s.ChargeOut)*coulombsPerAmpereHour, name, "discharge")
	if !fresh {
		p.one(f.status, bms.StatusNames(), int(bms.StatusUnknown), name)
		return
	}
	p.one(f.status, bms.StatusNames(), int(s.Status), name)
	f.collectReading(p, name, &s.Reading)
	f.collectEstimate(p, name, &s.Estimate)
	id := &s.Identity
	p.put(f.info, 1, name, s.Driver, told(id.Manufacturer), told(id.Device), told(id.Serial),
		id.Chemistry.String(), strconv.Itoa(len(s.Reading.Cells)))
}

func (f *batteryFamilies) collectReading(p page, name string, r *bms.Reading) {
	p.put(f.volts, float64(r.Voltage), name)
	p.put(f.amperes, float64(r.Current), name)
	p.put(f.watts, float64(r.Voltage)*float64(r.Current), name)
	p.put(f.temperature, float64(r.Temperature), name, packSensor)
	for i, t := range r.CellTemperatures[:min(len(r.CellTemperatures), bms.MaxCells)] {
		p.put(f.temperature, float64(t), name, strconv.Itoa(i))
	}
	low, high := unit.Volts(math.Inf(1)), unit.Volts(math.Inf(-1))
	for i, v := range r.Cells[:min(len(r.Cells), bms.MaxCells)] {
		p.put(f.cell, float64(v), name, strconv.Itoa(i))
		low, high = min(low, v), max(high, v)
	}
	p.put(f.spread, float64(high-low), name) // −∞ without cells, NaN if one is not known: no sample
	p.put(f.soc, float64(r.SoC), name, byGauge)
	p.put(f.charge, float64(r.Charge)*coulombsPerAmpereHour, name, byGauge)
	p.put(f.capacity, float64(r.Capacity)*coulombsPerAmpereHour, name, byGauge)
	p.put(f.designCapacity, float64(r.DesignCapacity)*coulombsPerAmpereHour, name)
	p.put(f.soh, float64(r.SoH), name)
	p.put(f.cycles, r.Cycles, name)
	p.bits(f.faults, bms.FaultNames(), uint32(r.Faults), name)
}

func (f *batteryFamilies) collectEstimate(p page, name string, e *bms.Estimate) {
	p.put(f.soc, float64(e.CoulombSoC), name, byCounting)
	p.put(f.soc, float64(e.SoC), name, byFilter)
	p.put(f.sigma, float64(e.SoCSigma), name)
	p.put(f.charge, float64(e.Charge)*coulombsPerAmpereHour, name, byFilter)
	p.put(f.capacity, float64(e.Capacity)*coulombsPerAmpereHour, name, byFilter)
	p.put(f.openCircuit, float64(e.OpenCircuitVoltage), name)
	p.put(f.modelVolts, float64(e.Voltage), name)
	p.put(f.resistance, float64(e.Resistance), name)
	p.put(f.residual, float64(e.Residual), name)
	p.put(f.toEmpty, float64(e.TimeToEmpty), name)
	p.put(f.toFull, float64(e.TimeToFull), name)
}

func qualityNames() []string {
	return []string{bms.Invalid.String(), bms.Measured.String(), bms.Estimated.String(), bms.Stale.String()}
}
