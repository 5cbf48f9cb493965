package sbs

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"periph.io/x/conn/v3/physic"

	"hilgate/bms"
	"hilgate/drivers/smbus"
	"hilgate/model/link"
	"hilgate/model/unit"
)

// vector is one file of the family. What all keys mean is in testdata/vectors/README.md, which of them there
// are in VOCABULARY.md there.
type vector struct {
	ID, Kind, Chip string
	Addr           string
	Config         struct {
		Cells          int     `json:"cells"`
		Location       string  `json:"location"`
		NominalVoltage float64 `json:"nominal_voltage"`
		WritePolicy    string  `json:"write_policy"`
		AbsentAfter    float64 `json:"absent_after_s"`
		Poll           float64 `json:"poll_s"`
	}
	Transfers []transfer
	Steps     []step
	Expect    map[string]any
	Tolerance map[string]float64 `json:"tolerance_abs"`

	DevicePEC bool              `json:"device_pec"`
	Image     map[string]string `json:"image"`
	ImageMAC  map[string]string `json:"image_mac"`
	ImageAlt  any               `json:"image_alt"`
}

type transfer struct {
	Op, Cmd, Tx, Rx, Nack, Word, Data, MAC string
	PEC                                    bool
	Expect                                 map[string]any
}

type step struct {
	T         float64
	Image     map[string]string
	Absent    *bool
	DevicePEC *bool    `json:"device_pec"`
	CheckAt   *float64 `json:"check_at"`
	Expect    map[string]any
}

// keys are those that the vocabulary lists, by kind; those of transfers and steps are "kind/".
var keys = map[string]string{
	"device":    "addr chip config device_pec expect id image image_alt image_mac kind notes oracles peer_differences schema title tolerance_abs",
	"transfer":  "addr chip config id kind notes oracles peer_differences schema title transfers",
	"sequence":  "addr chip config id kind notes oracles peer_differences schema steps title tolerance_abs",
	"transfer/": "cmd data expect mac nack op pec rx tx word",
	"sequence/": "absent check_at device_pec expect image t",
	"config":    "absent_after_s cells location nominal_voltage poll_s write_policy",
}

func TestVectorsSBS(t *testing.T) {
	folders := []string{"testdata/vectors"}
	if more := os.Getenv("HIL_VECTORS"); more != "" {
		folders = append(folders, filepath.Join(more, "sbs"))
	}
	cases, unsupported := 0, []string{}
	for i, folder := range folders {
		if _, err := os.Stat(folder); i > 0 && errors.Is(err, fs.ErrNotExist) {
			t.Logf("%s: no such family there", folder)
			continue
		}
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no vectors (%v)", folder, err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var v vector
			if err := json.Unmarshal(src, &v); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			cases++
			if v.Kind == "monitor" {
				unsupported = append(unsupported, v.ID)
				continue
			}
			t.Run(v.ID, func(t *testing.T) {
				checkKeys(t, src, v.Kind)
				synctest.Test(t, func(t *testing.T) { v.run(t) })
			})
		}
	}
	t.Logf("vectors sbs: %d cases, %d unsupported (%s)", cases, len(unsupported), strings.Join(unsupported, ", "))
}

func checkKeys(t *testing.T, src []byte, kind string) {
	var top map[string]any
	if err := json.Unmarshal(src, &top); err != nil {
		t.Fatal(err)
	}
	check := func(what string, m any) {
		object, _ := m.(map[string]any)
		for key := range object {
			if !slices.Contains(strings.Fields(keys[what]), key) {
				t.Errorf("key %q of %s is not in the vocabulary", key, what)
			}
		}
	}
	if keys[kind] == "" {
		t.Fatalf("kind %q is not in the vocabulary", kind)
	}
	check(kind, top)
	check("config", top["config"])
	for _, list := range []string{"transfers", "steps"} {
		items, _ := top[list].([]any)
		for _, item := range items {
			check(kind+"/", item)
		}
	}
}

func (v *vector) run(t *testing.T) {
	switch v.Kind {
	case "transfer":
		v.runTransfers(t)
	case "device":
		v.runDevice(t)
	case "sequence":
		v.runSequence(t)
	}
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// --- kind transfer ---

// playback is a bus that expects one message and answers it always in the same way.
type playback struct {
	t      *testing.T
	addr   uint16
	tx, rx []byte
	nack   bool
}

func (b *playback) String() string                  { return "playback" }
func (b *playback) SetSpeed(physic.Frequency) error { return nil }
func (b *playback) Tx(addr uint16, w, r []byte) error {
	if addr != b.addr || !slices.Equal(w, b.tx) {
		b.t.Errorf("host sent % x to 0x%02x, want % x to 0x%02x", w, addr, b.tx, b.addr)
	}
	if b.nack {
		return link.NACK
	}
	for i := copy(r, b.rx); i < len(r); i++ {
		r[i] = 0xff
	}
	return nil
}

// decoding is what a list of transfers has told so far that bears on later ones.
type decoding struct {
	chip  string
	cells int
	scale Scale

	selected uint16 // sub-command that a write has selected
	chosen   bool
}

func (v *vector) runTransfers(t *testing.T) {
	if !slices.Contains([]string{"bq40z50", "bq40z80", "bq78350", "sbs", "sbs-charger", "sbsm"}, v.Chip) {
		t.Fatalf("chip %q is not in the vocabulary", v.Chip)
	}
	d := decoding{chip: v.Chip, cells: v.Config.Cells, scale: Scale{1, 1}}
	for i, tr := range v.Transfers {
		bus := &playback{t: t, addr: uint16(number(t, v.Addr)), tx: bytesOf(t, tr.Tx), rx: bytesOf(t, tr.Rx), nack: tr.Nack != ""}
		pack := New(bus, Params{Address: bus.addr})
		pack.dev.PEC = tr.PEC
		got, err := d.do(t, pack, tr)
		v.compareTransfer(t, fmt.Sprintf("transfer %d, %s %s", i, tr.Op, tr.Cmd), tr.Expect, got, err)
	}
}

func (d *decoding) do(t *testing.T, p *Pack, tr transfer) (got map[string]any, err error) {
	ctx := t.Context()
	cmd := byte(number(t, tr.Cmd))
	switch tr.Op {
	case "write_word":
		word := uint16(number(t, tr.Word))
		if cmd == CmdManufacturerAccess {
			d.selected, d.chosen = word, true
		}
		return nil, p.dev.WriteWord(ctx, cmd, word)
	case "write_block":
		data := bytesOf(t, tr.Data)
		if cmd == CmdBlockAccess && len(data) >= 2 {
			d.selected, d.chosen = at(data, 0), true
		}
		return nil, p.dev.WriteBlock(ctx, cmd, data)
	case "read_word":
		w, err := p.dev.ReadWord(ctx, cmd)
		if err != nil {
			return nil, err
		}
		got = d.word(cmd, w)
		if !p.credible(cmd, w) {
			err = link.Implausible
		}
		return got, err
	case "read_block":
		limit, sub := MaxText, uint16(cmd)
		if cmd == CmdBlockAccess {
			limit = MaxMAC
		}
		data, err := p.dev.ReadBlock(ctx, cmd, limit, limit)
		if err != nil {
			return nil, err
		}
		got = map[string]any{"len": len(data), "data": fmt.Sprintf("% x", data)}
		if cmd >= CmdManufacturerName && cmd <= CmdDeviceChemistry {
			got["text"] = DecodeText(data)
			return got, nil
		}
		port := cmd == CmdBlockAccess || cmd == CmdManufacturerData
		switch {
		case tr.MAC != "":
			sub = uint16(number(t, tr.MAC))
		case port && d.chosen:
			sub = d.selected
		case cmd == CmdManufacturerData:
			return got, nil // the vendor's, and nobody knows what it is
		}
		if cmd == CmdBlockAccess {
			if data, err = ParseMAC(data, sub); err != nil {
				return got, err
			}
		}
		return got, d.sub(got, sub, data)
	}
	t.Fatalf("operation %q is not in the vocabulary", tr.Op)
	return nil, nil
}

type quantity struct {
	value float64
	of    string // dimension
}

// word decodes a word into the keys of the vocabulary.
func (d *decoding) word(cmd byte, w uint16) map[string]any {
	got := map[string]any{"raw": int(w)}
	switch d.chip {
	case "sbs-charger":
		s := ChargerStatus(w)
		got["charge_inhibited"], got["battery_present"] = s&ChargeInhibited != 0, s&BatteryPresent != 0
		got["ac_present"], got["res_cold"], got["res_hot"] = s&ACPresent != 0, s&ResistorCold != 0, s&ResistorHot != 0
		return got
	case "sbsm":
		s := SystemState(w)
		got["present"], got["charging"], got["powering"], got["smb"] = s.Present(), s.Charging(), s.Powering(), s.SMB()
		got["ac_present"], got["supported"] = StateCont(w).ACPresent(), SystemInfo(w).Supported()
		return got
	}
	switch cmd {
	case CmdBatteryMode:
		got["flags"] = Mode(w).Names()
	case CmdBatteryStatus:
		got["flags"], got["error_code"] = Status(w).Names(), Status(w).Code().String()
	case CmdSpecificationInfo:
		s := ParseSpecInfo(w)
		d.scale = s.Scale()
		got["revision"], got["version"], got["vscale"], got["ipscale"] = int(s.Revision), int(s.Version), int(s.VScale), int(s.IPScale)
	case CmdManufactureDate:
		got["date"] = nil
		if date := Date(w).String(); date != "" {
			got["date"] = date
		}
	case CmdAtRateTimeToFull, CmdAtRateTimeToEmpty, CmdRunTimeToEmpty, CmdAverageTimeToEmpty, CmdAverageTimeToFull:
		got["value"] = quantity{float64(DecodeMinutes(w)) / 60, "time"}
	case CmdTemperature:
		got["value"] = quantity{float64(DecodeTemperature(w)), "temperature"}
	case CmdVoltage, CmdDesignVoltage:
		got["value"] = quantity{float64(d.scale.DecodeVoltage(w)), "voltage"}
	case CmdCurrent, CmdAverageCurrent:
		got["value"] = quantity{float64(d.scale.DecodeCurrent(w)), "current"}
	case CmdMaxError, CmdRelativeStateOfCharge, CmdAbsoluteStateOfCharge:
		got["value"] = quantity{100 * float64(DecodePercent(w)), "ratio"}
	case CmdRemainingCapacity, CmdFullChargeCapacity, CmdDesignCapacity:
		got["value"] = quantity{float64(d.scale.DecodeCharge(w)), "charge"}
		got["energy"] = quantity{float64(d.scale.DecodeEnergy(w)), "energy"}
	case CmdChargingCurrent:
		got["value"], got["unbounded"] = quantity{float64(DecodeMilliamperes(w)), "current"}, w == 0xffff
	case CmdChargingVoltage:
		got["value"], got["unbounded"] = quantity{float64(DecodeMillivolts(w)), "voltage"}, w == 0xffff
	case CmdAtRateOK, CmdCycleCount, CmdSerialNumber:
		got["value"] = quantity{float64(w), "number"}
	case CmdStateOfHealth:
		s := StateOfHealth(w)
		got["value"] = quantity{100 * float64(s.Capacity()), "ratio"}
		got["soh_capacity_pct"], got["soh_energy_pct"] = 100*float64(s.Capacity()), 100*float64(s.Energy())
	default:
		if cmd <= CmdCell1 && cmd > CmdCell1-maxCellWords {
			got["value"] = quantity{float64(DecodeMillivolts(w)), "voltage"}
		}
	}
	return got
}

// sub decodes the data of a sub-command into the keys of the vocabulary.
func (d *decoding) sub(got map[string]any, sub uint16, data []byte) error {
	switch sub {
	case MACDAStatus1:
		s, err := ParseDAStatus1(data)
		if err != nil {
			return err
		}
		got["cells_mv"], got["cell_currents_ma"] = thousandths(s.Cells[:]), thousandths(s.Currents[:])
		got["bat_mv"], got["pack_mv"] = 1000*float64(s.Pack), 1000*float64(s.Terminals)
		got["power_cw"], got["avg_power_cw"] = 100*float64(s.Power), 100*float64(s.AveragePower)
	case MACDAStatus2:
		s, err := ParseTemperatures(data)
		if err != nil {
			return err
		}
		got["labels"], got["temps_c"] = TemperatureNames(), floats(s[:])
	case MACDAStatus3:
		s, err := ParseDAStatus3(data)
		if err != nil {
			return err
		}
		got["cells_mv"] = thousandths(s.Cells[:])
	case MACDeviceType:
		if len(data) < 2 {
			return link.Short
		}
		got["device_number"] = int(at(data, 0))
	case MACFirmwareVersion:
		f, err := ParseFirmware(data)
		if err != nil {
			return err
		}
		got["device_number"] = int(f.Device)
	default:
		bits, err := ParseBits(data)
		if err != nil {
			return err
		}
		got["u32"], got["u24"] = int(bits), int(bits&0xffffff)
		switch sub {
		case MACOperationStatus:
			got["flags"], got["security"] = Operation(bits).Names(), Operation(bits).Security()
		case MACSafetyAlert, MACSafetyStatus:
			got["flags"] = Safety(bits).Names()
		case MACFailureAlert, MACFailureStatus:
			got["flags"] = Failure(bits).Names()
		case MACGaugingStatus:
			got["flags"] = Gauging(bits).Names()
		}
	}
	return nil
}

func thousandths[Q ~float64](qs []Q) []float64 {
	var out []float64
	for _, q := range qs {
		out = append(out, math.Round(1000*float64(q)))
	}
	return out
}

func floats[Q ~float64](qs []Q) []float64 {
	var out []float64
	for _, q := range qs {
		out = append(out, float64(q))
	}
	return out
}

// units are the names of units that a vector may use, with their dimension and size.
var units = map[string]quantity{
	"V": {1, "voltage"}, "mV": {1e-3, "voltage"}, "A": {1, "current"}, "mA": {1e-3, "current"},
	"Ah": {1, "charge"}, "mAh": {1e-3, "charge"}, "Wh": {1, "energy"}, "mWh": {1e-3, "energy"}, "10mWh": {1e-2, "energy"},
	"min": {1, "time"}, "s": {1. / 60, "time"}, "degC": {1, "temperature"}, "%": {1, "ratio"}, "pct": {1, "ratio"},
	"percent": {1, "ratio"}, "": {1, "number"}, "cycles": {1, "number"}, "count": {1, "number"}, "bool": {1, "number"},
}

func (v *vector) compareTransfer(t *testing.T, what string, expect, got map[string]any, err error) {
	t.Helper()
	failure := map[link.Kind]string{link.PEC: "pec", link.NACK: "nack", link.Short: "length", link.Malformed: "mac_echo", link.Implausible: "value"}
	empty := false // a sound frame that tells nothing
	if q, ok := got["value"].(quantity); ok && math.IsNaN(q.value) {
		empty = true
	}
	if date, ok := got["date"]; ok && date == nil {
		empty = true
	}
	if ok, _ := expect["ok"].(bool); ok {
		if err != nil && (!empty || !errors.Is(err, link.Implausible)) {
			t.Errorf("%s: %v, want it accepted", what, err)
		}
	} else {
		name := failure[link.KindOf(err)]
		if err == nil {
			name = "nothing"
		}
		q, _ := got["value"].(quantity)
		if _, date := got["date"]; err == nil && empty && !date && q.of != "time" {
			name = "value"
		}
		if want, listed := expect["error"]; listed && want != name {
			t.Errorf("%s: refused for %s (%v), want %v", what, name, err, want)
		} else if !listed && name == "nothing" {
			t.Errorf("%s: accepted, want it refused", what)
		}
	}
	for key, want := range expect {
		switch key {
		case "ok", "error":
			continue
		case "unit":
			continue // with value
		case "value":
			v.compareValue(t, what, want, expect["unit"], got)
			continue
		}
		if have, ok := got[key]; !ok {
			if want != nil {
				t.Errorf("%s: nothing decodes to %q", what, key)
			}
		} else if key == "error_code" && strings.HasPrefix(fmt.Sprint(have), fmt.Sprint(want, "_")) {
			continue
		} else if key == "labels" && abbreviateAll(want, have.([]string), got["temps_c"].([]float64)) {
			continue
		} else if !same(want, have, v.Config.Cells) {
			t.Errorf("%s: %s = %v, want %v", what, key, have, want)
		}
	}
}

func (v *vector) compareValue(t *testing.T, what string, want, unitName any, got map[string]any) {
	t.Helper()
	name, _ := unitName.(string)
	size, ok := units[name]
	if !ok {
		t.Errorf("%s: unit %q is not known", what, name)
		return
	}
	q, ok := got["value"].(quantity)
	if energy, both := got["energy"].(quantity); both && size.of == "energy" {
		q = energy
	}
	if !ok || name != "" && q.of != size.of {
		t.Errorf("%s: decodes to %v, want %v %s", what, got, want, name)
		return
	}
	have := q.value / size.value
	switch want := want.(type) {
	case nil:
		if unbounded, _ := got["unbounded"].(bool); !math.IsNaN(have) && !unbounded { // 65535 is no number of mA or mV
			t.Errorf("%s: %v %s, want none", what, have, name)
		}
	case bool:
		if (have != 0) != want {
			t.Errorf("%s: %v, want %v", what, have, want)
		}
	case float64:
		tolerance := 1e-9 * max(1, math.Abs(want))
		if name == "degC" {
			tolerance = 0.06
		}
		if !(math.Abs(have-want) <= tolerance) {
			t.Errorf("%s: %v %s, want %v", what, have, name, want)
		}
	default:
		t.Errorf("%s: cannot compare with %v", what, want)
	}
}

// plain is a name without case and punctuation.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(s))
}

// abbreviate reports whether one name is the beginning of the other, or the same.
func abbreviate(a, b string) bool {
	a, b = plain(a), plain(b)
	return min(len(a), len(b)) > 1 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// abbreviateAll compares the labels of all sensors, or of those that are fitted.
func abbreviateAll(want any, have []string, values []float64) bool {
	list, _ := want.([]any)
	if len(list) < len(have) {
		var fitted []string
		for i, v := range values {
			if !math.IsNaN(v) {
				fitted = append(fitted, have[i])
			}
		}
		have = fitted
	}
	return slices.EqualFunc(list, have, func(w any, h string) bool { return abbreviate(fmt.Sprint(w), h) })
}

// same compares what a vector wants, as JSON has it, with what was decoded. Numbers may be written in
// hexadecimal, sets of batteries as a mask, as letters or as ordinals, names in any case.
func same(want, have any, cells int) bool {
	switch have := have.(type) {
	case nil:
		return want == nil
	case bool:
		return want == have
	case Batteries:
		return batteries(want) == have
	case Security:
		n, ok := numeric(want)
		return ok && n == float64(have) || plain(fmt.Sprint(want)) == plain(have.String())
	case int:
		n, ok := numeric(want)
		return ok && n == float64(have)
	case float64:
		if math.IsNaN(have) {
			return want == nil
		}
		n, ok := numeric(want)
		return ok && math.Abs(n-have) < 1e-6
	case string:
		text, ok := want.(string)
		return ok && strings.TrimSpace(text) == have || want == nil && have == ""
	case []string:
		list, ok := want.([]any)
		if !ok {
			return false
		}
		a, b := map[string]bool{}, map[string]bool{}
		for _, w := range list {
			a[plain(fmt.Sprint(w))] = true
		}
		for _, h := range have {
			b[plain(h)] = true
		}
		return maps.Equal(a, b)
	case []float64:
		list, ok := want.([]any)
		if ok && len(list) < len(have) {
			if len(list) == cells || len(list) == cells-4 { // only the cells that are fitted, of all or from the fifth on
				have = have[:len(list)]
			} else { // only the sensors that are
				have = slices.DeleteFunc(slices.Clone(have), math.IsNaN)
			}
		}
		if !ok || len(list) != len(have) {
			return false
		}
		for i := range have {
			n, isNumber := numeric(list[i])
			if math.IsNaN(have[i]) != (list[i] == nil) || isNumber && math.Abs(n-have[i]) > 0.06 {
				return false
			}
		}
		return true
	}
	return false
}

func numeric(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		n, err := strconv.ParseUint(v, 0, 64)
		return float64(n), err == nil
	}
	return 0, false
}

func batteries(want any) (set Batteries) {
	switch want := want.(type) {
	case float64:
		return Batteries(want)
	case string:
		if n, ok := numeric(want); ok {
			return Batteries(n)
		}
		for _, letter := range strings.ToUpper(want) {
			switch {
			case letter >= 'A' && letter <= 'D':
				set |= 1 << (letter - 'A')
			case !strings.ContainsRune(" ,", letter):
				return ^Batteries(0)
			}
		}
	case []any:
		for _, one := range want {
			if n, ok := numeric(one); ok && n >= 1 {
				set |= 1 << (int(n) - 1)
			} else {
				set |= batteries(one)
			}
		}
	}
	return set
}

// --- kinds device and sequence ---

// image is a device that is nothing but what a vector lists.
type image struct {
	t       *testing.T
	addr    uint16
	pec     bool
	absent  bool
	regs    map[byte][]byte
	subs    map[uint16][]byte
	alt     map[byte][]byte // in place of regs once the mode is in mAh
	policy  WritePolicy
	sub     uint16
	chosen  bool
	asWrote bool
}

func (d *image) String() string                  { return "i2c-1" }
func (d *image) SetSpeed(physic.Frequency) error { return nil }

func (d *image) load(regs map[string]string) {
	d.regs = map[byte][]byte{}
	for cmd, reply := range regs {
		d.regs[byte(number(d.t, cmd))] = bytesOf(d.t, reply)
	}
}

func (d *image) Tx(addr uint16, w, r []byte) error {
	if d.absent || addr != d.addr {
		return link.NACK
	}
	cmd := w[0]
	_, listed := d.regs[cmd]
	port := len(d.subs) > 0 && (cmd == CmdManufacturerAccess || cmd == CmdBlockAccess || cmd == CmdManufacturerData)
	if !listed && !port {
		return link.NACK
	}
	if len(w) > 1 {
		return d.write(cmd, w)
	}
	answer := d.regs[cmd]
	if d.asWrote && d.alt[cmd] != nil {
		answer = d.alt[cmd]
	}
	if port && d.chosen {
		answer = d.subs[d.sub]
		if answer == nil {
			return link.NACK
		}
		if cmd == CmdManufacturerData {
			answer = smbus.AppendBlock(nil, d.addr, cmd, answer[3:1+int(answer[0])], d.pec)
		}
	}
	if len(answer) == 0 && len(r) > 0 {
		return link.NACK
	}
	for i := copy(r, answer); i < len(r); i++ {
		r[i] = 0xff
	}
	return nil
}

func (d *image) write(cmd byte, w []byte) error {
	size := 3
	if cmd == CmdBlockAccess {
		size = 2 + int(w[1])
	}
	if len(w) == size+1 && smbus.PEC(smbus.PEC(0, byte(d.addr<<1)), w...) != 0 {
		return link.NACK
	}
	switch cmd {
	case CmdBlockAccess:
		d.sub, d.chosen = at(w[2:], 0), true
	case CmdManufacturerAccess:
		d.sub, d.chosen = at(w[1:], 0), true
	case CmdBatteryMode:
		if d.policy == WriteNever {
			d.t.Errorf("host wrote % x, which the policy %v forbids", w, d.policy)
		}
		if changed := Mode(at(w[1:], 0) ^ at(d.regs[cmd], 0)); d.policy == WriteCapacityMode && changed&^CapacityMode != 0 {
			d.t.Errorf("host changed %v of BatteryMode, which the policy %v forbids", changed.Names(), d.policy)
		}
		d.asWrote = d.alt != nil && Mode(at(w[1:], 0))&CapacityMode == 0
		if d.asWrote {
			d.alt[cmd] = smbus.AppendWord(nil, d.addr, cmd, at(w[1:], 0), d.pec)
		}
		return nil
	default:
		d.t.Errorf("host wrote % x, which the policy %v forbids", w, d.policy)
	}
	if d.chosen && !Harmless(d.sub) {
		d.t.Errorf("host selected sub-command 0x%04x", d.sub)
	}
	return nil
}

// alternatives finds the replies in image_alt, whatever its conditions are called.
func alternatives(t *testing.T, v any, into map[byte][]byte) {
	object, _ := v.(map[string]any)
	for key, value := range object {
		if reply, ok := value.(string); ok && strings.HasPrefix(key, "0x") {
			into[byte(number(t, key))] = bytesOf(t, reply)
		} else {
			alternatives(t, value, into)
		}
	}
}

func (v *vector) device(t *testing.T) (*image, *Pack) {
	p := Defaults()
	if err := p.Chip.UnmarshalText([]byte(v.Chip)); err != nil {
		t.Fatalf("chip is not in the vocabulary: %v", err)
	}
	if v.Config.WritePolicy != "" {
		if err := p.WritePolicy.UnmarshalText([]byte(v.Config.WritePolicy)); err != nil {
			t.Fatal(err)
		}
	}
	p.Address, p.Cells, p.Location = uint16(number(t, v.Addr)), v.Config.Cells, v.Config.Location
	p.NominalVoltage = unit.Volts(v.Config.NominalVoltage)
	if v.Config.AbsentAfter > 0 {
		p.AbsentAfter = time.Duration(v.Config.AbsentAfter * float64(time.Second))
	}
	d := &image{t: t, addr: p.Address, pec: v.DevicePEC, policy: p.WritePolicy, subs: map[uint16][]byte{}}
	d.load(v.Image)
	for sub, reply := range v.ImageMAC {
		d.subs[uint16(number(t, sub))] = bytesOf(t, reply)
	}
	if v.ImageAlt != nil {
		d.alt = map[byte][]byte{}
		alternatives(t, v.ImageAlt, d.alt)
	}
	return d, New(d, p)
}

func (v *vector) runDevice(t *testing.T) {
	_, pack := v.device(t)
	start := time.Now()
	var r bms.Reading
	for poll := range 8 {
		var err error
		if r, err = pack.Read(t.Context(), start.Add(time.Duration(poll)*time.Second)); err == nil {
			break
		}
	}
	v.compare(t, "", v.Expect, r, pack)
}

func (v *vector) runSequence(t *testing.T) {
	d, pack := v.device(t)
	d.absent = true
	start := time.Now()
	pollEvery := v.Config.Poll
	if pollEvery == 0 {
		pollEvery = 1
	}
	end := 0.0
	for _, s := range v.Steps {
		end = max(end, s.T)
		if s.CheckAt != nil {
			end = max(end, *s.CheckAt)
		}
	}
	applied, checked := 0, map[int]bool{}
	var r bms.Reading
	for poll := 0; ; poll++ {
		now := float64(poll) * pollEvery
		for i, s := range v.Steps { // those that fall before this poll
			if s.CheckAt != nil && *s.CheckAt < now-1e-9 && !checked[i] {
				checked[i] = true
				v.compare(t, fmt.Sprintf("at %v s: ", *s.CheckAt), s.Expect, r, pack)
			}
		}
		if now > end+pollEvery {
			break
		}
		for ; applied < len(v.Steps) && v.Steps[applied].T <= now+1e-9; applied++ {
			s := v.Steps[applied]
			switch {
			case s.Absent != nil:
				d.absent = *s.Absent
			case s.Image != nil:
				d.absent = false
			}
			if s.DevicePEC != nil {
				d.pec = *s.DevicePEC
			}
			if s.Image != nil {
				d.load(s.Image)
			}
		}
		r, _ = pack.Read(t.Context(), start.Add(time.Duration(now*float64(time.Second))))
	}
}

func (v *vector) compare(t *testing.T, when string, expect map[string]any, r bms.Reading, p *Pack) {
	t.Helper()
	id, _ := p.Identity()
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	got := map[string]any{
		"present": r.Present, "voltage": float64(r.Voltage), "current": float64(r.Current), "charge": float64(r.Charge),
		"capacity": float64(r.Capacity), "design_capacity": float64(r.DesignCapacity), "percentage": 100 * float64(r.SoC),
		"temperature": float64(r.Temperature), "cell_voltages": floats(r.Cells), "power_supply_status": enum(r.Status.String()),
		"health": enum(r.Health.String()), "technology": enum(id.Chemistry.String()), "serial": text(id.Serial),
		"location": p.Location(), "cycle_count": r.Cycles, "time_to_empty_s": float64(r.TimeToEmpty),
		"time_to_full_s": float64(r.TimeToFull), "manufacturer": text(id.Manufacturer), "device_name": text(id.Device),
		"manufacture_date": text(id.Manufactured), "charging_current": float64(r.ChargingCurrent),
		"charging_voltage": float64(r.ChargingVoltage), "pec_active": p.PECActive(), "state_of_health_pct": 100 * float64(r.SoH),
		"sealed": nil,
	}
	if s, known := p.Security(); known {
		got["sealed"] = s == Sealed
	}
	for key, want := range expect {
		have, known := got[key]
		if !known {
			t.Errorf("%sexpectation %q is not in the vocabulary", when, key)
			continue
		}
		if !within(want, have, v.Tolerance[key]) {
			t.Errorf("%s%s = %v, want %v", when, key, have, want)
		}
	}
}

// enum is the name of a constant, whose letters may be of any case.
type enum string

func within(want, have any, tolerance float64) bool {
	tolerance = max(tolerance, 1e-6)
	near := func(want any, have float64) bool {
		if want == nil {
			return math.IsNaN(have)
		}
		n, ok := want.(float64)
		return ok && math.Abs(n-have) <= tolerance
	}
	switch have := have.(type) {
	case float64:
		return near(want, have)
	case []float64:
		list, _ := want.([]any)
		return slices.EqualFunc(list, have, near)
	case enum:
		text, ok := want.(string)
		return ok && strings.EqualFold(text, string(have))
	}
	return want == have
}
