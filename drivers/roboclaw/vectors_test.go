package roboclaw

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hilgate/model/link"
	"hilgate/model/plant"
	"hilgate/motor"
)

// vector is one case of the shared set of byte vectors.
type vector struct {
	ID          string          `json:"id"`
	Kind        string          `json:"kind"`
	Note        string          `json:"note"`
	Op          string          `json:"op"`
	Args        map[string]any  `json:"args"`
	Tx          *string         `json:"tx"`
	Rx          *string         `json:"rx"`
	Result      map[string]any  `json:"result"`
	Error       string          `json:"error"`
	Steps       []vectorStep    `json:"steps"`
	CheckedWith json.RawMessage `json:"checked_with"`

	// Listed by the README for vectors of every protocol.
	State         json.RawMessage `json:"state"`
	DeviceEffect  json.RawMessage `json:"device_effect"`
	DeviceApplies json.RawMessage `json:"device_applies"`
	ResetsTimeout json.RawMessage `json:"resets_timeout"`
	DerivedBy     json.RawMessage `json:"derived_by"`
}

type vectorStep struct {
	Send   string  `json:"send"`
	Expect string  `json:"expect"`
	WaitMS float64 `json:"wait_ms"`
	Note   string  `json:"note"`
}

// operation maps one operation of the vocabulary to a command.
type operation struct {
	command Command
	args    []string // names in wire order; a name that starts with "=" goes through arguments
	result  func(v []int64) map[string]any
}

func acknowledged([]int64) map[string]any { return map[string]any{"ack": true} }

func named(names ...string) func([]int64) map[string]any {
	return func(v []int64) map[string]any {
		m := map[string]any{}
		for i, n := range names {
			m[n] = v[i]
		}
		return m
	}
}

func encoder(v []int64) map[string]any {
	return map[string]any{
		"count": v[0], "status": v[1], "underflow": v[1]&EncoderUnderflow != 0,
		"backward": v[1]&EncoderBackward != 0, "overflow": v[1]&EncoderOverflow != 0,
	}
}

var operations = map[string]operation{
	"DutyAccelM1":   {DutyAccelM1, []string{"duty", "accel"}, acknowledged},
	"DutyAccelM1M2": {DutyAccelBoth, []string{"duty1", "accel1", "duty2", "accel2"}, acknowledged},
	"DutyM1":        {DutyM1, []string{"duty"}, acknowledged},
	"DutyM1M2":      {DutyBoth, []string{"m1", "m2"}, acknowledged},
	"DutyM2":        {DutyM2, []string{"duty"}, acknowledged},
	"GetEncoders":   {GetEncoders, nil, named("enc1", "enc2")},
	"GetISpeeds":    {GetRawSpeeds, nil, named("speed1", "speed2")},
	"GetStatus":     {GetBulk, nil, bulkResult},
	"GetTemps": {GetTemperatures, nil, func(v []int64) map[string]any {
		return map[string]any{"t1_C": float64(Degrees(v[0])), "t2_C": float64(Degrees(v[1]))}
	}},
	"GetTimeout": {GetTimeout, nil, func(v []int64) map[string]any {
		return map[string]any{"raw": v[0], "seconds": (time.Duration(v[0]) * timeoutStep).Seconds()}
	}},
	"GetVolts": {GetVoltages, nil, func(v []int64) map[string]any {
		return map[string]any{"main_V": float64(Volts(v[0])), "logic_V": float64(Volts(v[1]))}
	}},
	"PositionM1M2": {DefaultPositionBoth, []string{"position1", "position2", "buffer"}, acknowledged},
	"ReadBuffers": {GetBuffers, nil, func(v []int64) map[string]any {
		return map[string]any{
			"buf1": v[0], "buf2": v[1], "m1_idle": Buffer(v[0]).Idle(), "m2_queued": Buffer(v[1]).Queued(),
		}
	}},
	"ReadCurrents": {GetCurrents, nil, func(v []int64) map[string]any {
		return map[string]any{
			"m1_raw": v[0], "m2_raw": v[1], "m1_A": float64(Amperes(v[0])), "m2_A": float64(Amperes(v[1])),
		}
	}},
	"ReadEncM1": {GetEncoderM1, nil, encoder},
	"ReadEncM2": {GetEncoderM2, nil, encoder},
	"ReadError": {GetStatus, nil, nil},
	"ReadISpeedM2": {GetRawSpeedM2, nil, func(v []int64) map[string]any {
		return map[string]any{"speed": SignedSpeed(v[0], v[1]), "backward": v[1] == 1}
	}},
	"ReadM1VelocityPID": {GetVelocityPIDM1, nil, func(v []int64) map[string]any {
		g := ParseVelocityPID(v)
		return map[string]any{"p": g.P, "i": g.I, "d": g.D, "qpps": g.QPPS}
	}},
	"ReadM2PositionPID": {GetPositionPIDM2, nil, func(v []int64) map[string]any {
		g := ParsePositionPID(v)
		return map[string]any{
			"p": g.P, "i": g.I, "d": g.D, "kimax": g.MaxI, "deadzone": g.DeadZone, "min": g.Min, "max": g.Max,
		}
	}},
	"ReadMainBatteryVoltage": {GetMainVoltage, nil, func(v []int64) map[string]any {
		return map[string]any{"raw": v[0], "V": float64(Volts(v[0]))}
	}},
	"ReadPWMs": {GetPWMs, nil, func(v []int64) map[string]any {
		return map[string]any{"pwm1": v[0], "pwm2": v[1], "duty1": float64(Duty(v[0])), "duty2": float64(Duty(v[1]))}
	}},
	"ReadTemp": {GetTemperature, nil, func(v []int64) map[string]any {
		return map[string]any{"raw": v[0], "C": float64(Degrees(v[0]))}
	}},
	"ReadVersion":                {GetVersion, nil, nil},
	"ResetEncoders":              {ResetEncoders, nil, acknowledged},
	"SetEncM1":                   {SetEncoderM1, []string{"count"}, acknowledged},
	"SetM1MaxCurrent":            {SetMaxCurrentM1, []string{"max", "min"}, acknowledged},
	"SetM1PositionPID":           {SetPositionPIDM1, []string{"=position"}, acknowledged},
	"SetM1VelocityPID":           {SetVelocityPIDM1, []string{"=velocity"}, acknowledged},
	"SetTimeout":                 {SetTimeout, []string{"=seconds"}, acknowledged},
	"SpeedAccelDeccelPositionM1": {PositionM1, []string{"accel", "speed", "decel", "position", "buffer"}, acknowledged},
	"SpeedAccelDeccelPositionM1M2": {PositionBoth, []string{
		"accel1", "speed1", "decel1", "position1", "accel2", "speed2", "decel2", "position2", "buffer",
	}, acknowledged},
	"SpeedAccelDistanceM1M2_2": {SpeedAccelDistanceBoth2, []string{
		"accel1", "speed1", "distance1", "accel2", "speed2", "distance2", "buffer",
	}, acknowledged},
	"SpeedAccelM1M2":   {SpeedAccelBoth, []string{"accel", "speed1", "speed2"}, acknowledged},
	"SpeedAccelM1M2_2": {SpeedAccelBoth2, []string{"accel1", "speed1", "accel2", "speed2"}, acknowledged},
	"SpeedDistanceM1":  {SpeedDistanceM1, []string{"speed", "distance", "buffer"}, acknowledged},
	"SpeedM1":          {SpeedM1, []string{"speed"}, acknowledged},
	"SpeedM1M2":        {SpeedBoth, []string{"m1", "m2"}, acknowledged},
	"WriteNVM":         {WriteNVM, []string{"=key"}, acknowledged},
}

func bulkResult(v []int64) map[string]any {
	b := ParseBulk(v)
	m := map[string]any{
		"tick": b.Tick, "state": b.Status.Word, "main_V": float64(b.Main), "logic_V": float64(b.Logic),
	}
	for i := range 2 {
		n := fmt.Sprint(i + 1)
		m["temp"+n+"_C"] = float64(b.Temperature[i])
		m["pwm"+n] = v[6+i]
		m["cur"+n+"_A"] = float64(b.Current[i])
		m["enc"+n] = b.Count[i]
		m["set"+n] = b.SetSpeed[i]
		m["speed"+n] = b.Speed[i]
		m["speed_err"+n] = b.SpeedError[i]
		m["pos_err"+n] = b.PositionError[i]
	}
	return m
}

func statusResult(s Status) map[string]any {
	return map[string]any{"raw": s.Word, "errors": s.Errors(), "warnings": s.Warnings()}
}

// arguments are the values of an operation, from what the vector calls them.
func (o operation) arguments(t *testing.T, args map[string]any) []int64 {
	t.Helper()
	number := func(name string) float64 {
		switch v := args[name].(type) {
		case float64:
			return v
		case bool:
			if v {
				return 1
			}
			return 0
		}
		t.Fatalf("argument %q is missing in %v", name, args)
		return 0
	}
	switch strings.Join(o.args, " ") {
	case "=seconds":
		return []int64{RawTimeout(time.Duration(math.Round(number("seconds") * float64(time.Second))))}
	case "=key":
		return []int64{Key}
	case "=velocity":
		v := VelocityPID{P: number("p"), I: number("i"), D: number("d"), QPPS: uint32(number("qpps"))}.Written()
		return v[:]
	case "=position":
		v := PositionPID{
			P: number("kp"), I: number("ki"), D: number("kd"), MaxI: uint32(number("kimax")),
			DeadZone: uint32(number("deadzone")), Min: int32(number("min")), Max: int32(number("max")),
		}.Written()
		return v[:]
	}
	var values []int64
	for _, name := range o.args {
		values = append(values, int64(number(name)))
	}
	return values
}

// script is a port whose peer says, after each Write, what the test wrote down.
type script struct {
	wrote   [][]byte
	replies [][]byte
	in      []byte
}

func (p *script) Write(b []byte) (int, error) {
	p.wrote = append(p.wrote, append([]byte(nil), b...))
	if len(p.replies) > 0 {
		p.in, p.replies = append(p.in, p.replies[0]...), p.replies[1:]
	}
	return len(b), nil
}

func (p *script) Read(b []byte) (int, error) {
	if len(p.in) == 0 {
		return 0, link.Timeout
	}
	n := copy(b, p.in)
	p.in = p.in[n:]
	return n, nil
}

var vectorErrors = map[string]error{
	"bad_ack": ErrAck, "crc": link.CRC, "malformed": link.Malformed, "timeout": link.Timeout,
}

func (v *vector) exchange(t *testing.T, o operation) {
	addr := byte(v.Args["addr"].(float64))
	args := o.arguments(t, v.Args)
	tx, rx := unhex(t, *v.Tx), unhex(t, *v.Rx)

	packet, err := AppendRequest(nil, Modern, addr, o.command, args...)
	if err != nil || hex.EncodeToString(packet) != *v.Tx {
		t.Errorf("request = %x, %v; want %s", packet, err, *v.Tx)
	}

	// The next exchange must not suffer from what was left over.
	next, _ := AppendReply(nil, Modern, []byte{addr, byte(GetTimeout)}, 3)
	port := &script{replies: [][]byte{rx, next}}
	c := newClient(port, addr)
	var got map[string]any
	switch v.Op {
	case "ReadVersion":
		var text string
		text, err = c.version()
		got = map[string]any{"version": text}
	case "ReadError":
		var s Status
		s, err = c.generation()
		got = statusResult(s)
	default:
		var values []int64
		if values, err = c.ask(o.command, args...); err == nil {
			got = o.result(values)
			if reply, err := AppendReply(nil, Modern, tx, values...); err != nil || hex.EncodeToString(reply) != *v.Rx {
				t.Errorf("the values make the reply %x, %v; want %s", reply, err, *v.Rx)
			}
		}
	}
	if len(port.wrote) != 1 || hex.EncodeToString(port.wrote[0]) != *v.Tx {
		t.Errorf("wrote %x, want one packet %s", port.wrote, *v.Tx)
	}
	switch want, known := vectorErrors[v.Error]; {
	case v.Error == "" && err != nil:
		t.Errorf("error %v, want none", err)
	case v.Error != "" && !known:
		t.Fatalf("error %q is in no vocabulary", v.Error)
	case v.Error != "" && (!errors.Is(err, want) || v.Error != "bad_ack" && errors.Is(err, ErrAck)):
		t.Errorf("error %v, want one that is %v", err, want)
	case v.Error == "":
		compare(t, v.Result, got)
	}
	if again, err := c.ask(GetTimeout); err != nil || again[0] != 3 {
		t.Errorf("the next exchange: %v, %v; want 3", again, err)
	}

	// The simulator answers: what, to a read, depends on a state that the vector does not tell.
	if v.Error != "" {
		return
	}
	s, _ := vectorSim(addr)
	if c.firmware == Old {
		s.SetFirmware(Old)
	}
	if kept := s.settings.field(o.command); kept != nil && !o.command.form(Modern).write {
		told := make([]int64, maxValues)
		n, err := ParseReply(told, Modern, tx, rx)
		if err != nil {
			t.Fatal(err)
		}
		copy(kept, told[:n])
	}
	answer := s.Feed(nil, tx)
	if (o.command.form(c.firmware).write || s.settings.field(o.command) != nil) && hex.EncodeToString(answer) != *v.Rx {
		t.Errorf("the simulator answers %x, want %s", answer, *v.Rx)
	}
	if v.Op != "ReadVersion" && len(answer) != len(rx) {
		t.Errorf("the simulator answers %x, as long as %s is wanted", answer, *v.Rx)
	}
}

// compare wants every value of the vector among those decoded.
func compare(t *testing.T, want, got map[string]any) {
	t.Helper()
	for key, w := range want {
		g, ok := got[key]
		if !ok {
			t.Errorf("the driver decodes no %q", key)
			continue
		}
		switch w := w.(type) {
		case []any:
			compareNames(t, key, w, g.([]string))
		case float64:
			n, tolerance := number(g), 0.0
			if _, scaled := g.(float64); scaled {
				tolerance = 1e-6 * math.Abs(w)
			}
			if !(math.Abs(n-w) <= tolerance) {
				t.Errorf("%s = %v, want %v", key, n, w)
			}
		default:
			if is, isBool := w.(bool); isBool && (number(g) != 0) != is || !isBool && fmt.Sprint(g) != fmt.Sprint(w) {
				t.Errorf("%s = %v, want %v", key, g, w)
			}
		}
	}
}

// compareNames compares the names of status bits, which the vocabulary does not list: as many as wanted,
// and those that the driver uses too at the same places.
func compareNames(t *testing.T, key string, want []any, got []string) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%s = %v, want %v", key, got, want)
		return
	}
	ours := slices.Concat(errorNames[:], warningNames[:])
	for i, w := range want {
		if slices.Contains(ours, w.(string)) && got[i] != w {
			t.Errorf("%s = %v, want %v", key, got, want)
		}
	}
}

func number(v any) float64 {
	switch v := v.(type) {
	case bool:
		if v {
			return 1
		}
		return 0
	case float64:
		return v
	}
	var f float64
	if _, err := fmt.Sscan(fmt.Sprint(v), &f); err != nil {
		return math.NaN()
	}
	return f
}

// vectorSim is a unit with two motors, straight from the factory.
func vectorSim(addr byte) (*Sim, *plant.World) {
	w := new(plant.World)
	joints := []motor.Joint{testJoint("left", 1, motor.ModeEffort), testJoint("right", 2, motor.ModeEffort)}
	var axes []*plant.Joint
	for i := range joints {
		joints[i].MaxVelocity = 0
		axes = append(axes, w.AddJoint(plant.DefaultJoint(), nil))
	}
	p := DefaultParams()
	p.Address = addr
	return NewSim(p, joints, axes), w
}

func (v *vector) device(t *testing.T) {
	addr := byte(FirstAddress)
	if a, ok := v.Args["addr"].(float64); ok {
		addr = byte(a)
	} else {
		for _, step := range slices.Backward(v.Steps) { // of those that are answered, the first
			if b := unhex(t, step.Send); step.Expect != "" && len(b) > 1 && b[0] >= FirstAddress && b[0] <= LastAddress {
				addr = b[0]
			}
		}
	}
	if len(v.Steps) == 0 {
		t.Fatal("a device without steps")
	}
	s, w := vectorSim(addr)
	for i, step := range v.Steps {
		if got := s.Feed(nil, unhex(t, step.Send)); hex.EncodeToString(got) != step.Expect {
			t.Errorf("step %d: %s is answered by %x, want %q", i, step.Send, got, step.Expect)
		}
		w.AdvanceTo(w.Now() + time.Duration(step.WaitMS*float64(time.Millisecond)))
	}
}

func TestVectorsRoboclaw(t *testing.T) {
	files := []string{filepath.Join("testdata", "roboclaw.json")}
	if dir := os.Getenv("HIL_VECTORS"); dir != "" {
		file := filepath.Join(dir, "motor", "roboclaw.json")
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			t.Logf("%s: no such family there", file)
		} else {
			files = append(files, file)
		}
	}
	cases := 0
	for _, file := range files {
		var set struct {
			Format   int             `json:"format"`
			Protocol string          `json:"protocol"`
			Profile  json.RawMessage `json:"profile"`
			Vectors  []vector        `json:"vectors"`
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(strings.NewReader(string(src)))
		d.DisallowUnknownFields() // a key that no vocabulary lists
		if err := d.Decode(&set); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if set.Format != 1 || set.Protocol != "roboclaw" {
			t.Fatalf("%s: format %d, protocol %q", file, set.Format, set.Protocol)
		}
		for _, v := range set.Vectors {
			cases++
			t.Run(v.ID, func(t *testing.T) {
				switch v.Kind {
				case "exchange", "client_error":
					o, ok := operations[v.Op]
					if !ok {
						t.Fatalf("operation %q is in no vocabulary", v.Op)
					}
					v.exchange(t, o)
				case "device":
					v.device(t)
				default:
					t.Fatalf("kind %q is in no vocabulary", v.Kind)
				}
			})
		}
	}
	t.Logf("vectors motor/roboclaw: %d cases, 0 unsupported ()", cases)
}
