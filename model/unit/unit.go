// Package unit holds the physical quantities that cross a package border.
//
// Each is a float64 in the SI unit of its name, with two exceptions that the field is used to: charge is
// in ampere-hours, since Gazebo's battery arithmetic is exact in them, and temperature in degrees Celsius.
// Ratios run from 0 to 1. Current and power are negative while a battery discharges. NaN means "not
// measured", so that an unknown value can never pass for a number.
package unit

import "math"

type (
	Volts       float64 // V
	Amperes     float64 // A; of a battery: negative while it discharges
	Ohms        float64 // Ω
	Watts       float64 // W; of a battery: negative while it supplies
	Joules      float64 // J
	AmpereHours float64 // Ah
	WattHours   float64 // Wh
	Celsius     float64 // °C
	Ratio       float64 // 0 to 1
	Seconds     float64 // s; for spans that can be unknown, else time.Duration

	// A joint's coordinates are in radians and newton-metres if it turns, in metres and newtons if it slides.
	Position float64 // rad or m
	Velocity float64 // rad/s or m/s
	Effort   float64 // N·m or N
)

// Known reports whether q was measured, that is, is not NaN.
func Known[Q ~float64](q Q) bool { return !math.IsNaN(float64(q)) }

// Unknown is the value of a quantity that was not measured: NaN.
func Unknown[Q ~float64]() Q { return Q(math.NaN()) }

// Finite reports whether q is a number: neither NaN nor infinite.
func Finite[Q ~float64](q Q) bool { return !math.IsNaN(float64(q)) && !math.IsInf(float64(q), 0) }

// Clamp returns q held within [low, high]; NaN stays NaN.
func Clamp[Q ~float64](q, low, high Q) Q {
	switch {
	case q < low:
		return low
	case q > high:
		return high
	}
	return q
}
