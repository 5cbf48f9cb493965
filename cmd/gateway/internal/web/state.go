package web

import (
	"encoding/json"
	"math"
	"time"

	"hilgate/bms"
	"hilgate/model"
	"hilgate/motor"
)

// number is a float64 whose NaN and infinities are JSON's null: not measured.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// instant is a time whose zero is JSON's null: never.
type instant time.Time

func (i instant) MarshalJSON() ([]byte, error) {
	if time.Time(i).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(time.Time(i))
}

// The state document: every quantity in the SI unit that its name ends in, ratios from 0 to 1, currents
// negative while a pack discharges, and null for what is not known.
type (
	document struct {
		Robot     string  `json:"robot"`
		Seq       uint64  `json:"seq"`
		Time      instant `json:"time"`
		Simulated bool    `json:"simulated"`
		Safety    safety  `json:"safety"`
		Batteries []pack  `json:"batteries"`
		Groups    []group `json:"motors"`
	}
	safety struct {
		EStop    bool     `json:"estop"`
		EStopID  uint64   `json:"estop_id"`
		Reason   string   `json:"estop_reason"`
		Since    instant  `json:"estop_since"`
		Withheld []string `json:"withheld"`
	}
	pack struct {
		Name        string   `json:"name"`
		Driver      string   `json:"driver"`
		Quality     string   `json:"quality"`
		LastReading instant  `json:"last_reading"`
		Error       string   `json:"error"`
		Polls       uint64   `json:"polls"`
		Failures    uint64   `json:"failures"`
		Status      string   `json:"status"`
		Empty       bool     `json:"empty"`
		Draining    bool     `json:"draining"`
		Charging    bool     `json:"charger_on"`
		Voltage     number   `json:"voltage_volts"`
		Current     number   `json:"current_amperes"`
		Charge      number   `json:"charge_ampere_hours"`
		Capacity    number   `json:"capacity_ampere_hours"`
		GaugeSoC    number   `json:"gauge_state_of_charge_ratio"`
		Temperature number   `json:"temperature_celsius"`
		Cells       []number `json:"cell_volts"`
		Health      string   `json:"health"`
		Faults      []string `json:"faults"`
		Estimate    estimate `json:"estimate"`
		Load        number   `json:"load_watts"`
		Feeds       []string `json:"feeds"`
	}
	estimate struct {
		SoC         number `json:"state_of_charge_ratio"`
		Sigma       number `json:"state_of_charge_sigma_ratio"`
		Voltage     number `json:"voltage_volts"`
		OpenCircuit number `json:"open_circuit_volts"`
		Resistance  number `json:"resistance_ohms"`
		Residual    number `json:"residual_volts"`
		TimeToEmpty number `json:"time_to_empty_seconds"`
		TimeToFull  number `json:"time_to_full_seconds"`
	}
	group struct {
		Name       string  `json:"name"`
		Driver     string  `json:"driver"`
		Model      string  `json:"model"`
		Firmware   string  `json:"firmware"`
		Failsafe   string  `json:"failsafe"`
		Connected  bool    `json:"connected"`
		Error      string  `json:"error"`
		LastSample instant `json:"last_sample"`
		Progress   number  `json:"trajectory_progress_ratio"`
		Active     bool    `json:"trajectory_active"`
		Cycles     uint64  `json:"cycles"`
		Overruns   uint64  `json:"overruns"`
		Skipped    uint64  `json:"skipped_cycles"`
		Joints     []joint `json:"joints"`
	}
	joint struct {
		Name         string   `json:"name"`
		Prismatic    bool     `json:"prismatic"`
		Position     number   `json:"position"`
		Velocity     number   `json:"velocity"`
		Effort       number   `json:"effort"`
		EffortSource string   `json:"effort_source"`
		Target       number   `json:"target_position"`
		Mode         string   `json:"mode"`
		Command      number   `json:"command"`
		Current      number   `json:"current_amperes"`
		Power        number   `json:"power_watts"`
		Supply       number   `json:"supply_volts"`
		Temperature  number   `json:"temperature_celsius"`
		Faults       []string `json:"faults"`
		Limited      []string `json:"limited"`
		Withheld     []string `json:"withheld"`
	}
)

// AppendState appends the state document of a snapshot.
func AppendState(dst []byte, s *model.Snapshot) ([]byte, error) {
	doc := document{
		Robot: s.Robot, Seq: s.Seq, Time: instant(s.At), Simulated: s.Simulated,
		Safety: safety{
			EStop: s.Safety.EStop, EStopID: s.Safety.EStopID, Reason: s.Safety.EStopReason,
			Since: instant(s.Safety.EStopSince), Withheld: s.Safety.Withheld.List(),
		},
		Batteries: make([]pack, 0, len(s.Packs)),
		Groups:    make([]group, 0, len(s.Groups)),
	}
	for i := range s.Packs {
		doc.Batteries = append(doc.Batteries, packDocument(&s.Packs[i]))
	}
	for i := range s.Groups {
		doc.Groups = append(doc.Groups, groupDocument(&s.Groups[i]))
	}
	text, err := json.Marshal(doc)
	return append(dst, text...), err
}

func packDocument(p *bms.State) pack {
	r, e := &p.Reading, &p.Estimate
	d := pack{
		Name: p.Name, Driver: p.Driver, Quality: p.Quality.String(), LastReading: instant(p.At),
		Error: p.LastError, Polls: p.Polls, Failures: p.Failures, Status: p.Status.String(),
		Empty: p.Empty, Draining: p.Draining, Charging: p.ChargerOn,
		Voltage: number(r.Voltage), Current: number(r.Current), Charge: number(r.Charge),
		Capacity: number(r.Capacity), GaugeSoC: number(r.SoC), Temperature: number(r.Temperature),
		Cells: make([]number, 0, len(r.Cells)), Health: r.Health.String(), Faults: list(r.Faults.Names()),
		Estimate: estimate{
			SoC: number(e.SoC), Sigma: number(e.SoCSigma), Voltage: number(e.Voltage),
			OpenCircuit: number(e.OpenCircuitVoltage), Resistance: number(e.Resistance),
			Residual: number(e.Residual), TimeToEmpty: number(e.TimeToEmpty), TimeToFull: number(e.TimeToFull),
		},
		Load: number(p.Load), Feeds: list(p.Feeds),
	}
	for _, v := range r.Cells {
		d.Cells = append(d.Cells, number(v))
	}
	return d
}

func groupDocument(g *motor.State) group {
	d := group{
		Name: g.Name, Driver: g.Driver, Model: g.Identity.Model, Firmware: g.Identity.Firmware,
		Failsafe: g.Identity.Failsafe, Connected: g.Connected, Error: g.LastError, LastSample: instant(g.At),
		Progress: number(g.Trajectory.Ratio), Active: g.Trajectory.Active,
		Cycles: g.Counts.Cycles, Overruns: g.Counts.Overruns, Skipped: g.Counts.Skipped,
		Joints: make([]joint, 0, len(g.Joints)),
	}
	for i := range g.Joints {
		j := &g.Joints[i]
		f := &j.Feedback
		d.Joints = append(d.Joints, joint{
			Name: j.Name, Prismatic: j.Prismatic, Position: number(f.Position), Velocity: number(f.Velocity),
			Effort: number(f.Effort), EffortSource: f.EffortSource.String(), Target: number(j.Target.Position),
			Mode: j.Command.Mode.String(), Command: number(commanded(j.Command)), Current: number(f.Current),
			Power: number(f.Power), Supply: number(f.Voltage), Temperature: number(f.Temperature),
			Faults: list(f.Faults.Names()), Limited: list(j.Limited.Names()), Withheld: j.Withheld.List(),
		})
	}
	return d
}

// commanded is the quantity of the command's mode; 0 for a stop.
func commanded(c motor.Command) float64 {
	switch c.Mode {
	case motor.ModeEffort:
		return float64(c.Effort)
	case motor.ModeVelocity:
		return float64(c.Velocity)
	case motor.ModePosition:
		return float64(c.Position)
	}
	return 0
}

// list makes an empty list of a nil one, so that JSON has [] and never null.
func list(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}
