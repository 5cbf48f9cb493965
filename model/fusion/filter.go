package fusion

import (
	"math"
	"time"
)

// maxSigma is the largest standard deviation that a quantity between 0 and 1 can have.
const maxSigma = 0.5

// filter is a Kalman filter with one state, the state of charge.
type filter struct {
	soc      float64 // in [0, 1]
	variance float64
}

// predict moves the state of charge by delta, with a lasting error of that rate: such errors add up as they
// are, not by their squares.
func (f *filter) predict(delta, sigma float64) {
	f.soc = min(max(f.soc+delta, 0), 1)
	s := min(math.Sqrt(f.variance)+sigma, maxSigma)
	f.variance = s * s
}

// correct takes a measurement that differs by innovation from what was expected, and that grows by slope
// for each unit of the state of charge. noise is its variance; floor is the variance of the state of charge
// below which the source cannot take it, however often it is asked.
func (f *filter) correct(innovation, slope, noise, floor float64) {
	gain := f.variance * slope / (slope*slope*f.variance + noise)
	f.soc = min(max(f.soc+gain*innovation, 0), 1)
	f.variance = max(f.variance*(1-gain*slope), min(f.variance, floor))
}

// source is something that is measured again and again with an error that lasts for a while.
type source struct {
	since time.Duration // the last measurement
	asked bool
}

// noise is the variance that a new measurement counts with, for an error of the given variance which
// forgets itself within the time given: as a first-order autoregressive error has it,
// (1 + ρ)/(1 − ρ) times its own with ρ = exp(−since/time). The first measurement counts in full.
func (s *source) noise(variance float64, forget time.Duration) float64 {
	if !s.asked || variance == 0 {
		return variance
	}
	rho := math.Exp(-float64(s.since) / float64(forget))
	return variance * (1 + rho) / (1 - rho)
}

// taken notes that the measurement was taken into the filter.
func (s *source) taken() { s.since, s.asked = 0, true }
