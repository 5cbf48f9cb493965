package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"hilgate/bms"
	"hilgate/model/unit"
)

// decoded is a BatteryState as a foreign program reads it.
type decoded struct {
	Voltage     *float32   `json:"voltage"`
	Charge      *float32   `json:"charge"`
	Percentage  *float32   `json:"percentage"`
	Status      int        `json:"power_supply_status"`
	StatusROS   int        `json:"x_power_supply_status_ros"`
	Cells       []*float32 `json:"cell_voltages"`
	CellCount   int        `json:"cell_count"`
	TimestampNs uint64     `json:"timestamp_ns"`
}

func decode(t *testing.T, b []byte) (d decoded) {
	t.Helper()
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return d
}

func TestBatteryStateHasHORUSMembersFirst(t *testing.T) {
	p := testPack()
	dec := json.NewDecoder(bytes.NewReader(AppendBatteryState(nil, &p)))
	var keys []string
	depth := 0
	for key := true; ; {
		token, err := dec.Token()
		if err != nil {
			break
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			key = true
		case string:
			if depth == 1 && key {
				keys = append(keys, v)
			}
			key = !key
		default:
			key = true
		}
	}
	want := []string{
		"voltage", "current", "charge", "capacity", "percentage", "power_supply_status", "temperature",
		"cell_voltages", "cell_count", "timestamp_ns",
	}
	if len(keys) < len(want) {
		t.Fatalf("members are %q", keys)
	}
	for i, k := range keys {
		if i < len(want) && k != want[i] {
			t.Errorf("member %d is %q, want %q", i, k, want[i])
		}
		if i >= len(want) && k[:2] != "x_" {
			t.Errorf("own member %q does not begin with x_", k)
		}
	}
}

func TestBatteryStateOfTheSeedsExample(t *testing.T) {
	r := bms.Unmeasured()
	r.Voltage, r.Current, r.Temperature, r.SoC = 12.6, -2.5, 32, 0.85
	p := bms.State{Reading: r, Status: bms.Discharging}
	p.Estimate.SoC = unit.Ratio(math.NaN())
	got := string(AppendBatteryState(nil, &p))
	want := `{"voltage":12.6,"current":-2.5,"charge":null,"capacity":null,"percentage":85,` +
		`"power_supply_status":2,"temperature":32,"cell_voltages":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],` +
		`"cell_count":0,"timestamp_ns":0,`
	if !bytes.HasPrefix([]byte(got), []byte(want)) {
		t.Errorf("got  %s\nwant %s…", got, want)
	}
}

func TestBatteryStateMapsStatusToHORUS(t *testing.T) {
	for status, want := range map[bms.Status]int{
		bms.StatusUnknown: 0, bms.Charging: 1, bms.Discharging: 2, bms.NotCharging: 0, bms.Full: 3,
	} {
		p := testPack()
		p.Status = status
		if d := decode(t, AppendBatteryState(nil, &p)); d.Status != want || d.StatusROS != int(status) {
			t.Errorf("%v is HORUS %d and ROS %d, want %d and %d", status, d.Status, d.StatusROS, want, status)
		}
	}
}

func TestBatteryStateClampsPercentage(t *testing.T) {
	for soc, want := range map[unit.Ratio]float32{-0.01: 0, 0.5: 50, 1.2: 100} {
		p := testPack()
		p.Estimate.SoC = soc
		if d := decode(t, AppendBatteryState(nil, &p)); d.Percentage == nil || *d.Percentage != want {
			t.Errorf("a state of charge of %v gives %v %%, want %v", soc, d.Percentage, want)
		}
	}
}

func TestLargePackIsPublishedInSegments(t *testing.T) {
	p := testPack()
	p.Reading.Cells = make([]unit.Volts, 18)
	for i := range p.Reading.Cells {
		p.Reading.Cells[i] = 3.5
	}
	if n := Segments(&p); n != 2 {
		t.Fatalf("18 cells are in %d segments, want 2", n)
	}
	if d := decode(t, AppendBatteryState(nil, &p)); d.CellCount != 0 || len(d.Cells) != 16 {
		t.Errorf("the whole pack has cell_count %d of %d, want 0 of 16", d.CellCount, len(d.Cells))
	}
	for k, want := range []struct {
		cells   int
		voltage float32
	}{{16, 56}, {2, 7}} {
		d := decode(t, AppendSegment(nil, &p, k))
		if d.CellCount != want.cells || len(d.Cells) != 16 || *d.Voltage != want.voltage {
			t.Errorf("segment %d has %d cells of %d and %v V, want %v", k, d.CellCount, len(d.Cells), *d.Voltage, want)
		}
	}
	if p.Reading.Cells = p.Reading.Cells[:16]; Segments(&p) != 0 {
		t.Error("16 cells need segments")
	}
}

// TestNarrowIsShortest holds the fast path for thousandths to encoding/json's float32.
func TestNarrowIsShortest(t *testing.T) {
	same := func(f float32) {
		t.Helper()
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var back float32
		got := appendNarrow(nil, float64(f))
		if err := json.Unmarshal(got, &back); err != nil || back != f || len(got) > len(want) {
			t.Fatalf("%b is written %s, want %s", f, got, want)
		}
	}
	for n := range 1_100_000 {
		same(float32(float64(n) / 1000))
	}
	for bits := uint32(0); bits < math.MaxUint32-100_003; bits += 100_003 {
		if f := math.Float32frombits(bits); f == f && !math.IsInf(float64(f), 0) {
			same(f)
		}
	}
}

func FuzzPayloadsAreValidJSON(f *testing.F) {
	f.Add(12.6, -2.5, 0.85, uint8(2), uint8(4), "main", int64(1))
	f.Add(math.NaN(), math.Inf(1), math.Inf(-1), uint8(250), uint8(32), "\xff\"\\\x00", int64(-1))
	f.Fuzz(func(t *testing.T, a, b, c float64, status, cells uint8, text string, ns int64) {
		s := testSnapshot()
		s.At = time.Unix(0, ns)
		p := &s.Packs[0]
		p.Name, p.Status, p.Quality, p.At = text, bms.Status(status), bms.Quality(status), time.Unix(0, ns)
		p.Reading.Voltage, p.Reading.Current, p.Reading.SoC = unit.Volts(a), unit.Amperes(b), unit.Ratio(c)
		p.Estimate.SoC, p.Estimate.Charge, p.Load = unit.Ratio(b), unit.AmpereHours(a), unit.Watts(c)
		p.EnergyIn, p.EnergyOut = unit.Joules(a), unit.Joules(c)
		p.Reading.Faults, p.Reading.Health = bms.Faults(ns), bms.Health(status)
		p.Reading.Cells = make([]unit.Volts, int(cells)%(bms.MaxCells+1))
		for i := range p.Reading.Cells {
			p.Reading.Cells[i] = unit.Volts(a * float64(i))
		}
		p.Consumers = append(p.Consumers, bms.Consumer{Name: text, Power: unit.Watts(b)})
		j := &s.Groups[0].Joints[0]
		j.Name, j.Feedback.Position, j.Feedback.Effort = text, unit.Position(a), unit.Effort(b)
		s.Groups[0].Trajectory.Ratio = float32(c)
		s.Safety.EStopReason, s.Safety.EStopSince = text, time.Unix(0, ns)
		for _, m := range NewView(NewTopics("", "rover"), Periods{})(nil, s) {
			if string(m.Payload) == Online || string(m.Payload) == Offline {
				continue
			}
			if !json.Valid(m.Payload) {
				t.Errorf("%s: %s", m.Topic, m.Payload)
			}
		}
		ack := AppendAck(nil, &Ack{ID: text, Method: text, Message: text, Stamp: time.Unix(0, ns)})
		result := AppendResult(nil, text, Successful, text, []float64{a, b, c})
		info := AppendInfo(nil, &Info{Version: text, Backends: []Backend{{text, text, text}}}, s, []string{text}, nil)
		for _, b := range [][]byte{ack, result, info} {
			if !json.Valid(b) {
				t.Errorf("%s", b)
			}
		}
	})
}

func TestAppendBatteryStateDoesNotAllocate(t *testing.T) {
	p, buf := testPack(), make([]byte, 0, 2048)
	if n := testing.AllocsPerRun(100, func() { buf = AppendBatteryState(buf[:0], &p) }); n != 0 {
		t.Errorf("AppendBatteryState allocates %v times, want 0", n)
	}
}

func TestViewDoesNotAllocateInSteadyState(t *testing.T) {
	s, view := testSnapshot(), NewView(NewTopics("", "rover"), Periods{})
	var messages []Message
	if n := testing.AllocsPerRun(100, func() { messages = view(messages[:0], s) }); n != 0 {
		t.Errorf("the view allocates %v times, want 0", n)
	}
}

func BenchmarkAppendBatteryState(b *testing.B) {
	p, buf := testPack(), make([]byte, 0, 2048)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendBatteryState(buf[:0], &p)
	}
}

func BenchmarkView(b *testing.B) {
	s, view := testSnapshot(), NewView(NewTopics("", "rover"), Periods{})
	var messages []Message
	b.ReportAllocs()
	for b.Loop() {
		messages = view(messages[:0], s)
	}
}
