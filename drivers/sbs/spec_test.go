package sbs

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"hilgate/bms"
	"hilgate/drivers"
	"hilgate/drivers/drivertest"
	"hilgate/model/plant"
)

func TestSpecPassesTheSuite(t *testing.T) {
	for name, o := range map[string]drivertest.Options{
		"bq40z50": {},
		"bq40z80": {Params: "chip: bq40z80"},
		"bq78350": {Pack: func() plant.PackConfig {
			c := plant.DefaultPack()
			c.Cells, c.E0, c.E1, c.Load = 10, 42, -8, 20
			return c
		}()},
		"sbs, words only":  {Params: "chip: sbs"},
		"mode kept in mAh": {Params: "write_policy: full"},
		"without codes":    {Params: "pec: off", NoChecksum: "no PEC"},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "bq40z50" {
				t.Skip("the suite over the other chips is not for -short")
			}
			drivertest.Test(t, Spec(), o)
		})
	}
}

func node(t *testing.T, text string) *yaml.Node {
	t.Helper()
	n := new(yaml.Node)
	if err := yaml.Unmarshal([]byte(text), n); err != nil {
		t.Fatal(err)
	}
	return n.Content[0]
}

func TestParametersAreReadByTheirNames(t *testing.T) {
	var got Params
	text := `{address: 0x0c, pec: off, chip: bq40z80, cells: 6, nominal_voltage: 21.6, current_multiplier: 2,
		voltage_multiplier: 1, write_policy: broadcasts, technology: life, current_deadband: 0.05, location: left leg,
		normal_period: 500ms, slow_period: 2s, absent_after: 3s, gap: 2ms, exact_length: true, split_transactions: true}`
	if err := node(t, text).Load(&got, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	want := Params{
		Address: 0x0c, PEC: PECOff, Chip: ChipBQ40Z80, Cells: 6, NominalVoltage: 21.6, CurrentMultiplier: 2,
		VoltageMultiplier: 1, WritePolicy: WriteBroadcasts, Technology: Technology(bms.LiFe), CurrentDeadband: 0.05,
		Location: "left leg", NormalPeriod: 500 * time.Millisecond, SlowPeriod: 2 * time.Second, AbsentAfter: 3 * time.Second,
		Gap: 2 * time.Millisecond, ExactLength: true, SplitTransactions: true,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDefaultsAreInBounds(t *testing.T) {
	if err := Defaults().Check(); err != nil {
		t.Error(err)
	}
}

func TestEveryFaultOfTheParametersIsTold(t *testing.T) {
	registry := drivers.NewRegistry(Spec())
	for text, want := range map[string][]string{
		"{address: 0x03, cells: -1}":                      {"address: 0x03", "0x08 to 0x77", "cells: -1"},
		"{chip: bq40z50, cells: 5}":                       {"cells: 5, want 0 to 4"},
		"{current_multiplier: 0, voltage_multiplier: -1}": {"current_multiplier: 0", "voltage_multiplier: -1"},
		"{current_multiplier: .nan}":                      {"current_multiplier: NaN"},
		"{nominal_voltage: -1, current_deadband: 11}":     {"nominal_voltage: -1", "current_deadband: 11"},
		"{normal_period: 10s, slow_period: 1ms}":          {"normal_period: 10s, want 100ms to 2.5s", "slow_period: 1ms"},
		"{absent_after: 0s, gap: 1s}":                     {"absent_after: 0s", "gap: 1s"},
		"{split_transactions: true}":                      {"pec: off"},
		"{pec: maybe}":                                    {`"maybe" is none of [auto on off]`},
		"{chip: bq20z65}":                                 {"bq20z65"},
		"{write_policy: always}":                          {"always"},
		"{technology: potato}":                            {"potato"},
		"{adr: 11}":                                       {"adr"},
	} {
		err := registry.Check("sbs", node(t, text))
		if err == nil {
			t.Errorf("%s passes", text)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not tell %q", text, err, part)
			}
		}
	}
}

func TestExactLengthAndSplitReadTheSame(t *testing.T) {
	for _, change := range []func(*Params){
		func(p *Params) { p.ExactLength = true },
		func(p *Params) { p.SplitTransactions, p.PEC = true, PECOff },
	} {
		inBubble(t, func(t *testing.T) {
			r := newRig(t, with(change), nil)
			got := r.must(time.Second)
			id, _ := r.driver.Identity()
			if len(got.Cells) != 4 || id.Manufacturer != "hilgate" || id.Firmware == "" {
				t.Errorf("%+v, %+v", got, id)
			}
		})
	}
}
