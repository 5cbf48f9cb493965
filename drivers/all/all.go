// Package all is the list of the drivers: one line each.
package all

import (
	"hilgate/drivers"
	"hilgate/drivers/roboclaw"
	"hilgate/drivers/sbs"
)

// Registry makes a registry of every driver that there is.
func Registry() *drivers.Registry {
	return drivers.NewRegistry(
		roboclaw.Spec(),
		sbs.Spec(),
	)
}
