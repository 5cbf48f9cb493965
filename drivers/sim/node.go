package sim

import (
	"fmt"

	"periph.io/x/conn/v3/physic"
)

// NodeOptions describe the adapter that a simulated I²C device node stands for.
type NodeOptions struct {
	Adapter Adapter          // "" is Broadcom
	Clock   physic.Frequency // at which transfers take their time on the wire; 0: they take none
}

// Adapter is a family of I²C controllers, which say different things when something goes wrong.
type Adapter string

const (
	// Broadcom is the controller of a Raspberry Pi up to 4 (i2c-bcm2835): no acknowledgement is EREMOTEIO,
	// a read message must be the last one, and it cannot do an SMBus block read, whose first byte is its
	// length.
	Broadcom Adapter = "bcm2835"
	// BitBang is two GPIO lines moved by software (i2c-gpio), and most USB adapters: no acknowledgement is
	// ENXIO, and any sequence of messages goes.
	BitBang Adapter = "i2c-gpio"
)

// UnmarshalText reads an adapter from a configuration: "bcm2835" or "i2c-gpio".
func (a *Adapter) UnmarshalText(text []byte) error {
	switch v := Adapter(text); v {
	case Broadcom, BitBang:
		*a = v
		return nil
	}
	return fmt.Errorf("%q is no adapter: want %s or %s", text, Broadcom, BitBang)
}
