// Package configs is the gateway's configuration: one commented YAML file, read strictly into one typed value.
//
// Everything that is wrong with a file is told at once, each fault with the line and the path of its key,
// the value, and the bound that it breaks:
//
//	robot.yaml:14: controllers.base.rate: 1000 Hz needs 260000 bit/s on bus drive, which may carry 92160: 80 % of 115200 baud
//
// Keys that Gazebo has are named as in its SDF: those of a battery's model and of a controller. A driver's
// parameters stay a node, which the driver decodes itself, with the same strictness and the same lines. The
// sections are one file each here, which holds the section's type, its defaults, its bounds and its checks;
// docs/configuration.md has them for people, and a test holds the two together.
//
// Beside the code stand the examples: demo.yaml, which the binary carries, robot.yaml and bench.yaml.
package configs

import (
	"crypto/sha256"
	"fmt"
	"log/slog"

	"go.yaml.in/yaml/v4"

	"hilgate/drivers"
	"hilgate/motor"
)

// File is a whole configuration. Load fills in every default, so that nothing is left to guess. Lists are
// in the order of the file.
type File struct {
	Robot    string     `yaml:"robot"`     // the robot's name: a level of every topic
	LogLevel slog.Level `yaml:"log_level"` // debug, info, warn or error

	Buses       Buses       `yaml:"buses"`
	Batteries   Batteries   `yaml:"batteries"`
	Motors      Groups      `yaml:"motors"`
	Controllers Controllers `yaml:"controllers"`

	MQTT   *MQTT   `yaml:"mqtt"` // nil: none
	HTTP   HTTP    `yaml:"http"`
	Motion *Motion `yaml:"motion"` // nil: none

	Simulate Simulate `yaml:"simulate"`

	Hash string `yaml:"-"` // of the file's text: the first 12 digits of its SHA-256
}

// Drivers is what Load asks of the drivers; *drivers.Registry answers it.
type Drivers interface {
	Names() []string
	Lookup(name string) (drivers.Spec, bool)
	Check(name string, params *yaml.Node) error
	CheckJoint(name string, j *motor.Joint) error
	CycleBytes(name string, params *yaml.Node, joints []motor.Joint) int
}

// Load reads a configuration; name is what its faults are printed with. It opens no file and no bus. The
// error is Faults: everything that is wrong, each with its line.
func Load(name string, src []byte, d Drivers) (*File, error) {
	s := newSource(name)
	root := s.parse(src)
	if root == nil {
		return nil, s.sorted()
	}
	f := &File{Hash: fmt.Sprintf("%x", sha256.Sum256(src))[:12], HTTP: HTTP{Listen: DefaultHTTP}, Simulate: defaultSimulate()}
	s.collect("", root.Load(f, limits()))
	c := checker{source: s, file: f, drivers: d, joints: map[string]string{}, devices: map[string]string{}}
	c.run()
	if err := s.sorted(); err != nil {
		return nil, err
	}
	f.Hasten(f.Simulate.TimeScale)
	return f, nil
}

// Bus finds a bus by name; nil if there is none.
func (f *File) Bus(name string) *Bus {
	for i := range f.Buses {
		if f.Buses[i].Name == name {
			return &f.Buses[i]
		}
	}
	return nil
}

// Battery finds a battery by name; nil if there is none.
func (f *File) Battery(name string) *Battery {
	for i := range f.Batteries {
		if f.Batteries[i].Name == name {
			return &f.Batteries[i]
		}
	}
	return nil
}

// Group finds the motors of a name; nil if there are none.
func (f *File) Group(name string) *Group {
	for i := range f.Motors {
		if f.Motors[i].Name == name {
			return &f.Motors[i]
		}
	}
	return nil
}
