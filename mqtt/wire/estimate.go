package wire

import (
	"strconv"
	"time"

	"hilgate/bms"
)

// AppendEstimate appends what the filter believes of a pack at an instant: soc, coulomb_soc and soc_sigma
// from 0 to 1, charge and capacity in Ah, ocv, voltage and residual_v in V, current in A (negative while
// discharging), r0_ohm, and times in s. soh is the gauge's own, from 0 to 1. These go on while the pack is
// silent, when residual_v is null.
func AppendEstimate(dst []byte, p *bms.State, at time.Time) []byte {
	e := &p.Estimate
	dst = append(dst, `{"stamp_ns":`...)
	dst = strconv.AppendInt(dst, nanoseconds(at), 10)
	dst = append(dst, `,"quality":"`...)
	dst = append(dst, p.Quality.String()...)
	dst = append(dst, '"')
	for _, f := range [...]struct {
		key   string
		value float64
	}{
		{`,"soc":`, float64(e.SoC)},
		{`,"soc_sigma":`, float64(e.SoCSigma)},
		{`,"coulomb_soc":`, float64(e.CoulombSoC)},
		{`,"charge":`, float64(e.Charge)},
		{`,"capacity":`, float64(e.Capacity)},
		{`,"r0_ohm":`, float64(e.Resistance)},
		{`,"ocv":`, float64(e.OpenCircuitVoltage)},
		{`,"voltage":`, float64(e.Voltage)},
		{`,"current":`, float64(e.Current)},
		{`,"residual_v":`, float64(e.Residual)},
		{`,"soh":`, float64(p.Reading.SoH)},
		{`,"time_to_empty_s":`, float64(e.TimeToEmpty)},
		{`,"time_to_full_s":`, float64(e.TimeToFull)},
	} {
		dst = append(dst, f.key...)
		dst = appendNarrow(dst, f.value)
	}
	return append(dst, '}')
}
