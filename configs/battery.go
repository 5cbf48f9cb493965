package configs

import (
	"errors"
	"reflect"
	"time"

	"go.yaml.in/yaml/v4"

	"hilgate/drivers"
	"hilgate/model/battery"
	"hilgate/model/fusion"
	"hilgate/model/plant"
	"hilgate/model/unit"
)

// Battery is one pack.
type Battery struct {
	Name   string    `yaml:"-"`
	Driver string    `yaml:"driver"`
	Bus    string    `yaml:"bus"`
	Params yaml.Node `yaml:"params"` // of the driver
	Poll   Poll      `yaml:"poll"`

	Model  battery.Config `yaml:"model"`  // the keys are Gazebo's
	Fusion fusion.Config  `yaml:"fusion"` // its Model is Model

	BatteryLow      float64 `yaml:"battery_low"`      // % of charge at which people are told
	BatteryCritical float64 `yaml:"battery_critical"` // %, below BatteryLow

	Feeds []string `yaml:"feeds"` // the joints that stop when it is empty or lost

	PowerDrainingTopic     []string `yaml:"power_draining_topic"`      // further topics that start its drain
	StopPowerDrainingTopic []string `yaml:"stop_power_draining_topic"` // and that stop it

	Plant plant.PackConfig `yaml:"-"` // what a simulator of it is made from
}

// Poll says when a pack is read.
type Poll struct {
	Interval   time.Duration `yaml:"interval"`    // between two polls
	StaleAfter time.Duration `yaml:"stale_after"` // without an answer, until its measured values are withdrawn
}

// Defaults of a battery.
const (
	defaultInterval   = 100 * time.Millisecond
	defaultStaleAfter = 5 * time.Second
	defaultLow        = 20 // %, as HRIM's parameter battery_low
	defaultCritical   = 5  // %, as HRIM's parameter battery_critical
)

// Bounds of a poll: a pack is stale after at least three polls, since any one may fail.
const (
	minInterval, maxInterval = 5 * time.Millisecond, 10 * time.Minute
	minPolls                 = 3
	maxStaleAfter            = 24 * time.Hour
)

// Low is BatteryLow as a ratio.
func (b *Battery) Low() unit.Ratio { return unit.Ratio(b.BatteryLow / 100) }

// Critical is BatteryCritical as a ratio.
func (b *Battery) Critical() unit.Ratio { return unit.Ratio(b.BatteryCritical / 100) }

// Batteries are the packs of a file, in its order.
type Batteries []Battery

// UnmarshalYAML decodes the section.
func (b *Batteries) UnmarshalYAML(n *yaml.Node) (err error) {
	*b, err = entries(n, func(name string) Battery {
		return Battery{
			Name: name, Poll: Poll{Interval: defaultInterval, StaleAfter: defaultStaleAfter},
			Model: battery.Default(), Fusion: fusion.Default(),
			BatteryLow: defaultLow, BatteryCritical: defaultCritical,
		}
	})
	return err
}

func (c *checker) batteries() {
	for i := range c.file.Batteries {
		b := &c.file.Batteries[i]
		at := "batteries." + b.Name
		c.name(at, b.Name)
		c.device("batteries", b.Name, b.Driver, b.Bus, &b.Params, func(k drivers.Kind) bool { return k != drivers.GroupOnSerial })
		c.within(at+".poll.interval", b.Poll.Interval, minInterval, maxInterval)
		c.within(at+".poll.stale_after", b.Poll.StaleAfter, max(minPolls*b.Poll.Interval, minInterval), maxStaleAfter)
		c.model(at, b)
		if !(b.BatteryLow > 0 && b.BatteryLow <= 100) {
			c.faultf(at+".battery_low", "%v %%: want above 0, up to 100", b.BatteryLow)
		}
		if !(b.BatteryCritical >= 0 && b.BatteryCritical < b.BatteryLow) {
			c.faultf(at+".battery_critical", "%v %%: want 0 or more, below battery_low, %v %%", b.BatteryCritical, b.BatteryLow)
		}
		fed := map[string]bool{}
		for k, joint := range b.Feeds {
			path := index(at+".feeds", k)
			if _, known := c.joints[joint]; !known {
				c.faultf(path, "%s: no joint has that name", joint)
			}
			if fed[joint] {
				c.faultf(path, "%s: named twice", joint)
			}
			fed[joint] = true
		}
		for k, topic := range b.PowerDrainingTopic {
			c.topic(index(at+".power_draining_topic", k), topic)
		}
		for k, topic := range b.StopPowerDrainingTopic {
			c.topic(index(at+".stop_power_draining_topic", k), topic)
		}
	}
}

// model checks the battery's model together with what the fusion makes of it.
func (c *checker) model(at string, b *Battery) {
	if b.Model.Name == "" {
		b.Model.Name = b.Name
	}
	b.Fusion.Model = b.Model
	c.modelFault(at, b.Fusion.Check())
}

// modelFault notes each fault under the section that has its key: model, fusion, and its limits tell theirs
// in one error.
func (c *checker) modelFault(at string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			c.modelFault(at, e)
		}
		return
	}
	section := ".model"
	if f, ok := errors.AsType[*battery.Fault](err); ok && !hasKey[battery.Config](f.Key) {
		section = ".fusion"
		if hasKey[fusion.Limits](f.Key) {
			section = ".fusion.limits"
		}
	}
	c.collect(at+section, err)
}

// hasKey reports whether a section of type T has the key.
func hasKey[T any](key string) bool {
	for f := range reflect.TypeFor[T]().Fields() {
		if f.Tag.Get("yaml") == key {
			return true
		}
	}
	return false
}

// addresses finds packs that would answer at one I²C address.
func (c *checker) addresses() {
	type place struct {
		bus     string
		address uint16
	}
	taken := map[place]string{}
	for i := range c.file.Batteries {
		b := &c.file.Batteries[i]
		spec, ok := c.drivers.Lookup(b.Driver)
		if !ok || spec.Kind != drivers.PackOnI2C || c.drivers.Check(b.Driver, &b.Params) != nil {
			continue
		}
		p := place{b.Bus, spec.Address(&b.Params)}
		if other, used := taken[p]; used {
			path := "batteries." + b.Name + ".params"
			if c.has(path + ".address") {
				path += ".address"
			}
			c.faultf(path, "0x%02x: battery %s is at that address on bus %s", p.address, other, b.Bus)
		}
		taken[p] = b.Name
	}
}
