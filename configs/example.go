package configs

import _ "embed"

//go:embed demo.yaml
var demo []byte

// Demo is the configuration of gateway demo: a robot of simulators alone, demo.yaml.
func Demo() []byte { return append([]byte(nil), demo...) }
