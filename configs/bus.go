package configs

import (
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"hilgate/drivers/sim"
)

// Bus is one I²C bus or serial port. Which of the two it is follows from the drivers of the devices on it.
type Bus struct {
	Name string `yaml:"-"`

	// Device is where the bus is: a device node or its by-id link, the name of an I²C bus ("I2C1", "1") or
	// serial port ("COM3"), "sim:" for a simulator in memory, "pty:" for one behind a pseudo-terminal.
	Device string `yaml:"device"`

	Baud    int           `yaml:"baud"`    // bit/s of a serial port, 8N1
	Timeout time.Duration `yaml:"timeout"` // of one wait for an answer
	Speed   int           `yaml:"speed"`   // Hz, the clock of a simulated I²C bus
	Faults  sim.Faults    `yaml:"faults"`  // put on the wire of a simulator on purpose

	Serial bool `yaml:"-"` // a serial port; else an I²C bus
	Looped bool `yaml:"-"` // owned by a control loop; else by a poller
}

// Defaults of a bus.
const (
	defaultBaud          = 115200
	defaultSpeed         = 100_000
	defaultSerialTimeout = 20 * time.Millisecond
	defaultI2CTimeout    = 100 * time.Millisecond
)

// Bounds of a bus. A looped bus may not wait longer for an answer than the shortest timeout by which a motor
// controller stops its motors by itself (RoboClaw counts in tenths of a second).
const (
	minBaud, maxBaud       = 300, 12_000_000
	minTimeout, maxTimeout = time.Millisecond, 5 * time.Second
	maxLoopTimeout         = 100 * time.Millisecond
	minSpeed, maxSpeed     = 10_000, 1_000_000
)

// Simulated reports whether the gateway itself simulates what is on the bus.
func (b *Bus) Simulated() bool { return b.Device == "sim:" || b.Device == "pty:" }

// Buses are the buses of a file, in its order.
type Buses []Bus

// UnmarshalYAML decodes the section.
func (b *Buses) UnmarshalYAML(n *yaml.Node) (err error) {
	*b, err = entries(n, func(name string) Bus { return Bus{Name: name, Baud: defaultBaud, Speed: defaultSpeed} })
	return err
}

var (
	scheme       = regexp.MustCompile(`^[a-z]{2,}:`) // a single letter is a drive of Windows
	serialDevice = regexp.MustCompile(`^pty:|^/dev/(tty|serial/)|^COM\d`)
	i2cDevice    = regexp.MustCompile(`^/dev/i2c|^I2C\d`)
)

func (c *checker) buses() {
	paths := map[string]string{}
	for i := range c.file.Buses {
		b := &c.file.Buses[i]
		at := "buses." + b.Name
		c.name(at, b.Name)
		c.bus(at, b)
		if other, used := paths[b.Device]; used && !b.Simulated() && b.Device != "" {
			c.faultf(at+".device", "%s is already bus %s", b.Device, other)
		}
		paths[b.Device] = b.Name
	}
}

func (c *checker) bus(at string, b *Bus) {
	packs, groups := c.on(b)
	devices := slices.Concat(groups, packs)
	switch kind := scheme.FindString(b.Device); {
	case b.Device == "":
		c.faultf(at+".device", "missing: want a device node, sim: or pty:")
	case kind != "" && !b.Simulated():
		c.faultf(at+".device", "%s: want a device node, sim: or pty:", b.Device)
	case !b.Serial && len(packs) > 0 && serialDevice.MatchString(b.Device):
		c.faultf(at+".device", "%s is a serial port, and %s wants an I²C bus", b.Device, packs[0])
	case b.Serial && i2cDevice.MatchString(b.Device):
		c.faultf(at+".device", "%s is an I²C bus, and %s wants a serial port", b.Device, devices[0])
	}
	if b.Timeout == 0 && !c.has(at+".timeout") {
		b.Timeout = defaultI2CTimeout
		if b.Serial {
			b.Timeout = defaultSerialTimeout
		}
	}
	longest := maxTimeout
	if b.Looped {
		longest = maxLoopTimeout
	}
	if b.Timeout < minTimeout || b.Timeout > longest {
		c.faultf(at+".timeout", "%v: want %v to %v on %s", b.Timeout, minTimeout, longest, c.owner(b))
	}
	if b.Baud < minBaud || b.Baud > maxBaud {
		c.faultf(at+".baud", "%d bit/s: want %d to %d", b.Baud, minBaud, maxBaud)
	}
	if b.Speed < minSpeed || b.Speed > maxSpeed {
		c.faultf(at+".speed", "%d Hz: want %d to %d", b.Speed, minSpeed, maxSpeed)
	}
	c.collect(at+".faults", b.Faults.Check())
	if len(devices) == 0 {
		return
	}
	if b.Serial && c.has(at+".speed") {
		c.faultf(at+".speed", "%d Hz: bus %s is a serial port, which has a baud", b.Speed, b.Name)
	}
	if !b.Serial && c.has(at+".baud") {
		c.faultf(at+".baud", "%d bit/s: bus %s is an I²C bus, which has none", b.Baud, b.Name)
	}
	if !slices.ContainsFunc(devices, c.file.Serves) {
		for _, key := range []string{"faults", "speed"} {
			if c.has(at + "." + key) {
				c.faultf(at+"."+key, "%s is hardware: only a simulator has this, and simulate names no device on the bus", b.Device)
			}
		}
	}
}

func (c *checker) owner(b *Bus) string {
	if b.Looped {
		return "the bus of a control loop"
	}
	return "a polled bus"
}

// on lists the devices on a bus by name.
func (c *checker) on(b *Bus) (packs, groups []string) {
	for _, p := range c.file.Batteries {
		if p.Bus == b.Name {
			packs = append(packs, p.Name)
		}
	}
	for _, g := range c.file.Motors {
		if g.Bus == b.Name {
			groups = append(groups, g.Name)
		}
	}
	return packs, groups
}

// share settles what each bus is by who is on it: polled or looped, I²C or serial.
func (c *checker) share() {
	for i := range c.file.Buses {
		b := &c.file.Buses[i]
		packs, groups := c.on(b)
		if b.Looped = len(groups) > 0; b.Looped {
			b.Serial = true // there are no motor controllers on I²C
			for _, pack := range packs {
				c.faultf("batteries."+pack+".bus", "%s runs the control loop of %s, and a bus is either polled or looped: want a bus of its own",
					b.Name, groups[0])
			}
			for _, group := range groups[1:] {
				c.faultf("motors."+group+".bus", "%s already belongs to %s: want one motor controller a bus", b.Name, groups[0])
			}
			continue
		}
		first := ""
		for _, name := range packs {
			spec, ok := c.drivers.Lookup(c.file.Battery(name).Driver)
			switch {
			case !ok:
			case first == "":
				first, b.Serial = name, spec.Kind.Serial()
			case spec.Kind.Serial() != b.Serial:
				c.faultf("batteries."+name+".bus", "driver %s does not fit on %s beside %s: one wants an I²C bus, the other a serial port",
					spec.Name, b.Name, first)
			}
		}
	}
}
