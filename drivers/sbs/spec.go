package sbs

import (
	"periph.io/x/conn/v3/i2c"

	"hilgate/bms"
	"hilgate/drivers"
	"hilgate/drivers/sim"
	"hilgate/model/plant"
)

// Spec is the driver "sbs".
func Spec() drivers.Spec {
	return drivers.I2CPack("sbs", "smart battery on SMBus (SBS 1.1; BQ40Z50, BQ4050, BQ40Z80, BQ78350 gauges)", Defaults(),
		func(bus i2c.Bus, p Params) (bms.Pack, error) { return New(bus, p), nil },
		func(p Params, pack *plant.Pack) sim.Target { return NewSim(p, pack) })
}
