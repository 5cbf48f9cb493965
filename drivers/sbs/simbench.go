package sbs

// simFaults are the faults that only a smart battery has; those of any device on a wire are package sim's.
type simFaults struct {
	gone       bool
	asleep     bool
	liar       bool
	swapped    bool
	busy       int
	intrusions int
	spoiled    int
	short      int
}

// refuse reports whether the device leaves the transaction unanswered.
func (f *simFaults) refuse() bool {
	switch {
	case f.gone:
		return true
	case f.asleep:
		f.asleep = false
		return true
	case f.busy > 0:
		f.busy--
		return true
	}
	return false
}

// damage swaps the bytes of a word, before its packet error code is made.
func (f *simFaults) damage(answer *[]byte) {
	if a := *answer; f.swapped && len(a) == 2 {
		a[0], a[1] = a[1], a[0]
	}
}

func (f *simFaults) spoil(pec byte) byte {
	if f.spoiled == 0 {
		return pec
	}
	f.spoiled--
	return pec ^ 0x5a
}

// cut ends an answer after its first byte.
func (f *simFaults) cut(answer *[]byte) {
	if f.short > 0 && len(*answer) > 1 {
		f.short--
		*answer = (*answer)[:1]
	}
}

// Vanish takes the pack off the bus, or puts it back.
func (s *Sim) Vanish(on bool) { s.faults.gone = on }

// Sleep puts the gauge to sleep: it wakes by the next transaction, which it does not answer.
func (s *Sim) Sleep() { s.faults.asleep = true }

// Busy lets the gauge refuse the next n transactions, as during a write to its flash.
func (s *Sim) Busy(n int) { s.faults.busy = n }

// Lie lets the gauge claim packet error codes and have none, or end the lie.
func (s *Sim) Lie(on bool) { s.faults.liar = on }

// SwapBytes lets the gauge send words high byte first.
func (s *Sim) SwapBytes(on bool) { s.faults.swapped = on }

// SpoilPEC makes the next n packet error codes wrong.
func (s *Sim) SpoilPEC(n int) { s.faults.spoiled = n }

// Cut ends each of the next n answers after a byte; the rest reads 0xff.
func (s *Sim) Cut(n int) { s.faults.short = n }

// Intrude has another master select another sub-command before each of the next n answers at
// CmdBlockAccess is read.
func (s *Sim) Intrude(n int) { s.faults.intrusions = n }

// Seal closes or opens the gauge: an open one answers sub-commands as commands too, and obeys those that
// do something.
func (s *Sim) Seal(on bool) { s.sealed = on }

// Trip sets protections beside those that the plant gives reason for; 0 takes them back.
func (s *Sim) Trip(bits Safety) { s.safety = bits }

// Fail sets permanent failures; 0 takes them back.
func (s *Sim) Fail(bits Failure) { s.failure = bits }

// SetCapacityMode is what a charger does that wants capacities in 10 mWh, or mAh.
func (s *Sim) SetCapacityMode(energy bool) {
	s.mode &^= CapacityMode
	if energy {
		s.mode |= CapacityMode
	}
}

// SetLabel makes another pack of it, as after a swap. Texts are cut at 32 bytes.
func (s *Sim) SetLabel(l Label) {
	for _, text := range []*string{&l.Manufacturer, &l.Device, &l.Chemistry} {
		*text = (*text)[:min(len(*text), MaxText)]
	}
	s.label = l
}

// Label is what is printed on the pack.
func (s *Sim) Label() Label { return s.label }

// Truth is the true state of pack and gauge, for people and tests.
type Truth struct {
	Chip        string    `json:"chip"`
	Label       Label     `json:"label"`
	Voltage     float64   `json:"voltage"`     // V
	Current     float64   `json:"current"`     // A, negative discharging
	Charge      float64   `json:"charge"`      // Ah, of the weakest cell
	Capacity    float64   `json:"capacity"`    // Ah, of the weakest cell
	SoC         float64   `json:"soc"`         // ratio
	Temperature float64   `json:"temperature"` // °C
	Cells       []float64 `json:"cells"`       // V
	Charging    bool      `json:"charging"`    // a charger is connected
	Protected   bool      `json:"protected"`   // the discharge switch is open
	Mode        []string  `json:"mode"`        // flags of BatteryMode
	Status      []string  `json:"status"`      // flags of BatteryStatus
	Safety      []string  `json:"safety"`      // flags of SafetyStatus
	Failure     []string  `json:"failure"`     // flags of PFStatus
	Sealed      bool      `json:"sealed"`
	Writes      int       `json:"writes"`    // registers that hosts have written
	Dangerous   int       `json:"dangerous"` // sub-commands that hosts should not have sent
	Faults      []string  `json:"faults"`    // injected
}

// Truth returns a Truth.
func (s *Sim) Truth() any {
	p := s.pack
	t := Truth{
		Chip: s.chip.String(), Label: s.label, Voltage: float64(p.Voltage()), Current: float64(p.Current()),
		Charge: float64(p.Charge()), Capacity: float64(p.Capacity()), SoC: float64(p.SoC()),
		Temperature: float64(p.Temperature()), Charging: p.Charging(), Protected: p.Protected(),
		Mode: s.mode.Names(), Status: s.status().Names(), Safety: s.protections().Names(),
		Failure: s.failure.Names(), Sealed: s.sealed, Writes: s.writes, Dangerous: s.dangerous,
		Faults: s.faults.names(),
	}
	for i := range p.CellCount() {
		t.Cells = append(t.Cells, float64(p.Cell(i)))
	}
	return t
}

func (f *simFaults) names() []string {
	active := []string{}
	for _, fault := range []struct {
		name string
		on   bool
	}{
		{"gone", f.gone}, {"asleep", f.asleep}, {"pec_liar", f.liar}, {"swapped_bytes", f.swapped}, {"busy", f.busy > 0},
		{"intruder", f.intrusions > 0}, {"spoiled_pec", f.spoiled > 0}, {"short", f.short > 0},
	} {
		if fault.on {
			active = append(active, fault.name)
		}
	}
	return active
}
