package configs

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"hilgate/drivers"
)

// checker looks at a decoded file as a whole.
type checker struct {
	*source
	file    *File
	drivers Drivers
	joints  map[string]string // by joint: the motors that it belongs to
	devices map[string]string // by name: the section of the battery or motors
}

func (c *checker) run() {
	c.motors()
	c.batteries()
	c.addresses()
	c.share()
	c.buses()
	c.controllers()
	c.simulate()
	c.motion()
	c.mqtt()
	c.http()
	c.robot()
}

func (c *checker) robot() {
	switch {
	case c.file.Robot == "":
		c.faultf("robot", "missing: want the robot's name, which is in every topic")
	case !nameText.MatchString(c.file.Robot):
		c.faultf("robot", "%s: want 1 to 64 of a-z, 0-9, _ and -", c.file.Robot)
	}
	if len(c.file.Batteries)+len(c.file.Motors) == 0 && !c.broken["batteries"] && !c.broken["motors"] {
		c.faultf("", "no batteries and no motors: want at least one device")
	}
}

func (c *checker) name(path, name string) {
	if !nameText.MatchString(name) {
		c.faultf(path, "a name is 1 to 64 of a-z, 0-9, _ and -")
	}
}

// device checks what batteries and motors have in common: a name of its own, a driver of the right kind
// with sound parameters, and a bus.
func (c *checker) device(section, name, driver, bus string, params *yaml.Node, right func(drivers.Kind) bool) {
	at := section + "." + name
	if other, used := c.devices[name]; used {
		c.faultf(at, "%s have one of this name: names of devices are unique in the robot", other)
	}
	if slices.Contains(simulateKeys, name) {
		c.faultf(at, "this name is a key of simulate: want another")
	}
	c.devices[name] = section
	switch spec, ok := c.drivers.Lookup(driver); {
	case driver == "":
		c.faultf(at+".driver", "missing: want one of %s", c.driversFor(right))
	case !ok:
		c.faultf(at+".driver", "%s: want one of %s", driver, c.driversFor(right))
	case !right(spec.Kind):
		c.faultf(at+".driver", "%s is not for %s: want one of %s", driver, section, c.driversFor(right))
	default:
		c.collect(at+".params", c.drivers.Check(driver, params))
	}
	switch {
	case bus == "":
		c.faultf(at+".bus", "missing: want %s", c.busNames())
	case c.file.Bus(bus) == nil:
		c.faultf(at+".bus", "%s: want %s", bus, c.busNames())
	}
}

// driversFor lists the drivers of a kind.
func (c *checker) driversFor(right func(drivers.Kind) bool) string {
	var names []string
	for _, name := range c.drivers.Names() {
		if spec, ok := c.drivers.Lookup(name); ok && right(spec.Kind) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func (c *checker) busNames() string {
	if len(c.file.Buses) == 0 {
		return "the name of one of the buses, of which there are none"
	}
	names := make([]string, len(c.file.Buses))
	for i := range c.file.Buses {
		names[i] = c.file.Buses[i].Name
	}
	return "one of the buses " + strings.Join(names, ", ")
}

func (c *checker) within(path string, d, least, most time.Duration) {
	if d < least || d > most {
		c.faultf(path, "%v: want %v to %v", d, least, most)
	}
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// A number that an alias stands for was not looked at in the survey, so infinity is looked for here too.
func (c *checker) positive(path string, x float64) {
	if !(x > 0) || math.IsInf(x, 1) {
		c.faultf(path, "%v: want above 0", x)
	}
}

func (c *checker) notNegative(path string, x float64) {
	if !(x >= 0) || math.IsInf(x, 1) {
		c.faultf(path, "%v: want 0 or more", x)
	}
}

func (c *checker) finite(path string, x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		c.faultf(path, "%v: want a finite number", x)
	}
}
