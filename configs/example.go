package configs

import _ "embed"

// DemoName is what faults of Demo are printed with.
const DemoName = "demo.yaml"

//go:embed demo.yaml
var demo []byte

// Demo is the configuration of gateway demo: a robot of simulators alone.
func Demo() []byte { return append([]byte(nil), demo...) }
