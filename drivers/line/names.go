package line

import (
	"fmt"
	"strconv"
	"strings"

	"periph.io/x/conn/v3/i2c/i2creg"
	"periph.io/x/host/v3"

	"hilgate/model/link"
)

// findI2C resolves the name, alias or number of an I²C bus to the path of its device node, as periph's host
// knows this machine's buses. Only the name is taken from there: the transfer is ours.
func findI2C(name string) (path string, err error) {
	if _, err := host.Init(); err != nil {
		return "", fmt.Errorf("looking for I²C bus %s: %w: %w", name, link.IO, err)
	}
	number, err := strconv.Atoi(name)
	numbered := err == nil
	for _, ref := range i2creg.All() {
		match := ref.Name == name || numbered && ref.Number == number
		for _, alias := range ref.Aliases {
			match = match || alias == name
		}
		if match && strings.HasPrefix(ref.Name, "/dev/") {
			return ref.Name, nil
		}
	}
	return "", fmt.Errorf("there is no I²C bus %s: %s: %w", name, found(I2CBuses()), link.Closed)
}

// I2CBuses lists the I²C buses of this machine, as periph's host finds them: "/dev/i2c-1 (I2C1)".
func I2CBuses() []string {
	if _, err := host.Init(); err != nil {
		return nil
	}
	var names []string
	for _, ref := range i2creg.All() {
		name := ref.Name
		if len(ref.Aliases) > 0 {
			name += " (" + strings.Join(ref.Aliases, ", ") + ")"
		}
		names = append(names, name)
	}
	return names
}
