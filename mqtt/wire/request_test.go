package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hilgate/motor/trajectory"
)

func TestParseRequestReadsTheEnvelope(t *testing.T) {
	got, err := ParseRequest([]byte(` {"id":"a\u0062","client":"ui","ttl_ms":1500,"stamp_ns":"1700000000000000001",
		"later":[{}],"args":{"data":12.5,"battery":"main","confirm":7,"reason":"smoke"},"source":"panel"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Request{
		ID: "ab", Client: "ui", TTL: 1500 * time.Millisecond, Stamp: time.Unix(0, 1700000000000000001),
		Battery: "main", Confirm: "7", Reason: "smoke", Source: "panel",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Request{})); diff != "" {
		t.Error(diff)
	}
	if x, err := got.Number(); x != 12.5 || err != nil {
		t.Errorf("the argument is %v, %v", x, err)
	}
}

func TestParseRequestTakesPlainPayloads(t *testing.T) {
	for _, c := range []struct {
		payload string
		is      bool
		bad     error
	}{
		{"", true, nil}, {" \n", true, nil}, {"true", true, nil}, {"false", false, nil}, {"1", true, nil},
		{`{"data":true}`, true, nil}, {`{"data":false}`, false, nil}, {`{}`, true, nil}, {`{"id":"x"}`, true, nil},
		{`{"id":"x","args":{"data":false}}`, false, nil}, {`"on"`, false, ErrWrongKind}, {"12.5", false, ErrWrongKind},
		{"null", false, ErrWrongKind}, {`{"data":[]}`, false, ErrWrongKind},
	} {
		r, err := ParseRequest([]byte(c.payload))
		if err != nil {
			t.Errorf("%q: %v", c.payload, err)
			continue
		}
		if is, err := r.Bool(); is != c.is || !errors.Is(err, c.bad) {
			t.Errorf("%q is %v, %v; want %v, %v", c.payload, is, err, c.is, c.bad)
		}
	}
	for payload, want := range map[string]float64{"12.5": 12.5, `{"data":0}`: 0, `{"args":{"data":-3}}`: -3} {
		r, err := ParseRequest([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		if x, err := r.Number(); x != want || err != nil {
			t.Errorf("%q is %v, %v; want %v", payload, x, err, want)
		}
	}
	for _, payload := range []string{"", "true", "null", `"NaN"`, `{"data":null}`, `{"data":"Infinity"}`, "{}"} {
		r, err := ParseRequest([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		if x, err := r.Number(); err == nil {
			t.Errorf("%q passes for the number %v", payload, x)
		}
	}
}

func TestParseRequestSaysWhereItIsWrong(t *testing.T) {
	for payload, want := range map[string]string{
		"start":                           "not a JSON text: byte 1",
		`{"id":"` + long(65) + `"}`:       "id: number out of range: 65 bytes of text, at most 64",
		`{"id":[1]}`:                      "id: wrong kind of value: an array, want a string",
		`{"ttl_ms":-1}`:                   "ttl_ms: number out of range",
		`{"stamp_ns":1.5}`:                "stamp_ns: wrong kind of value: 1.5 is no whole number",
		`{"args":{"battery":{}}}`:         "args.battery: wrong kind of value: an object, want a string",
		`{"a":` + strings.Repeat("[", 99): "nested too deeply: byte 21",
	} {
		_, err := ParseRequest([]byte(payload))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v; want %q", payload, err, want)
		}
	}
	if _, err := ParseRequest(make([]byte, MaxPayload+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("beyond the limit: %v", err)
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestEchoIsKnown(t *testing.T) {
	if !IsEcho(AppendPowerLoad(nil, 8.5)) {
		t.Error("the gateway does not know its own echo")
	}
	for _, foreign := range []string{"", "8.5", `{"data":8.5}`, `{"data":8.5,"x_source":"ui"}`, `{"args":{}}`, "{", `"x_source"`} {
		if IsEcho([]byte(foreign)) {
			t.Errorf("%s passes for an echo", foreign)
		}
	}
}

func TestSegmentKeepsNamesInTheirLevel(t *testing.T) {
	for name, want := range map[string]string{
		"Main-1": "main-1", "a/b": "a_b", "+": "_", "#": "_", "": "_", "ü€": "__", "a\x00\xff": "a__",
		long(200): long(MaxSegment),
	} {
		if got := Segment(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestTopicsNameAndReadCommands(t *testing.T) {
	topics := NewTopics("/Site/Hall 1/", "Rover")
	const root = "site/hall_1/model/rover/"
	for path, want := range map[string]Command{
		"joint_trajectory":                       {Method: MethodTrajectory},
		"estop/engage":                           {Method: MethodEStopEngage},
		"estop/release":                          {Method: MethodEStopRelease},
		"battery/main/recharge/start":            {Method: MethodRechargeStart, Battery: "main"},
		"battery/main/recharge/stop":             {Method: MethodRechargeStop, Battery: "main"},
		"battery/main/drain/start":               {Method: MethodDrainStart, Battery: "main"},
		"battery/main/drain/stop":                {Method: MethodDrainStop, Battery: "main"},
		"battery/main/drain/dance":               {Battery: "main"},
		"battery/main/consumer/lidar/power_load": {Method: MethodPowerLoad, Battery: "main", Consumer: "lidar", Echoed: true},
		"battery/main/consumer/l/power_load/set": {Method: MethodPowerLoad, Battery: "main", Consumer: "l"},
		"req/drain_stop":                         {Method: MethodDrainStop, Generic: true},
		"req/self_destruct":                      {Generic: true},
	} {
		got, ok := topics.Parse(root + path)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Command{}, "Name")); !ok || diff != "" {
			t.Errorf("%s: %v %s", path, ok, diff)
		}
		if !matched(topics.Commands(), root+path) {
			t.Errorf("%s is not subscribed", path)
		}
	}
	for _, foreign := range []string{"", "model/rover/joint_trajectory", root + "battery/main/state", root + "battery/main", root + "battery", root} {
		if c, ok := topics.Parse(foreign); ok {
			t.Errorf("%s passes for %+v", foreign, c)
		}
	}
	if got := topics.PowerLoad("Main", "a/b"); got != root+"battery/main/consumer/a_b/power_load" {
		t.Error(got)
	}
	if got := topics.Extra("/battery/discharge"); got != "site/hall_1/battery/discharge" {
		t.Error(got)
	}
	if got := NewTopics("", "r").Response("../#"); got != "model/r/rsp/____" {
		t.Error(got)
	}
}

// matched reports whether one of the filters, which use only +, matches the topic.
func matched(filters []string, topic string) bool {
	levels := strings.Split(topic, "/")
next:
	for _, f := range filters {
		parts := strings.Split(f, "/")
		if len(parts) != len(levels) {
			continue
		}
		for i, p := range parts {
			if p != "+" && p != levels[i] {
				continue next
			}
		}
		return true
	}
	return false
}

func TestParseTrajectoryReadsEveryForm(t *testing.T) {
	plain := `{"header":{"stamp":{"sec":5,"nanosec":7}},"joint_names":["left","right"],"points":[
		{"positions":[1,null],"time_from_start":{"sec":1,"nsec":500000000}},
		{"positions":[2,"NaN"],"velocities":null,"effort":[0.5,"-Infinity"],"time_from_start":"2.5s"},
		{"accelerations":[1e-3,0],"time_from_start":3.1,"later":{"a":[1]}}]}`
	camel := `{"header":{"stamp":{"sec":"5","nsec":7}},"jointNames":["left","right"],"points":[
		{"positions":[1,"NaN"],"timeFromStart":{"sec":"1","nsec":500000000}},
		{"positions":[2,"nan"],"effort":[0.5,"-Infinity"],"timeFromStart":"2500ms"},
		{"accelerations":[1e-3,0],"timeFromStart":{"sec":3,"nanosec":100000000}}]}`
	nan := math.NaN()
	want := Trajectory{
		Start: time.Unix(5, 7), JointNames: []string{"left", "right"},
		Points: []trajectory.Point{
			{Positions: []float64{1, nan}, FromStart: 1500 * time.Millisecond},
			{Positions: []float64{2, nan}, Effort: []float64{0.5, math.Inf(-1)}, FromStart: 2500 * time.Millisecond},
			{Accelerations: []float64{1e-3, 0}, FromStart: 3100 * time.Millisecond},
		},
	}
	for _, c := range []struct{ text, id string }{
		{plain, ""}, {camel, ""}, {`{"id":"t","client":"ui","args":` + plain + `}`, "t"},
	} {
		m, r, err := ParseTrajectory([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		want.ID = c.id
		if diff := cmp.Diff(want, m, cmpopts.EquateNaNs()); diff != "" || r.ID != c.id {
			t.Errorf("id %q: %s", r.ID, diff)
		}
	}
}

func TestParseTrajectorySaysWhereItIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "not a JSON text",
		"[]":                                    "wrong kind of value: an array, want an object",
		"{,}":                                   "not a JSON text: byte 2",
		`{"joint_names":"left"}`:                "joint_names: wrong kind of value: a string, want an array",
		`{"joint_names":["a",2]}`:               "joint_names[1]: wrong kind of value: a number, want a string",
		`{"points":[{},{"positions":[0,"x"]}]}`: `points[1].positions[1]: wrong kind of value: "x" is no number`,
		`{"points":[{"effort":[1e999]}]}`:       "points[0].effort[0]: number out of range: 1e999",
		`{"points":[{"time_from_start":"soon"}]}`:                              `points[0].time_from_start: wrong kind of value: "soon" is no duration`,
		`{"points":[{"time_from_start":{"sec":99999999999999999999}}]}`:        "points[0].time_from_start.sec: number out of range",
		`{"points":[{"time_from_start":{"sec":9223372036,"nsec":999999999}}]}`: "points[0].time_from_start: number out of range",
		`{"points":[{"time_from_start":1e10}]}`:                                "points[0].time_from_start: number out of range",
		`{"points":[{"time_from_start":true}]}`:                                "points[0].time_from_start: wrong kind of value: a boolean, want a number",
		`{"points":[1]}`:                                                       "points[0]: wrong kind of value: a number, want an object",
		`{"args":{"points":[0]}}`:                                              "points[0]: wrong kind",
		`{"header":{"stamp":1e300}}`:                                           "header.stamp: number out of range",
		`{"header":{"stamp":{"sec":1.5}}}`:                                     "header.stamp.sec: wrong kind of value: 1.5 is no whole number",
		`{"points":[` + strings.Repeat("{},", MaxPoints) + `{}]}`:              "points: too many elements: at most 10000",
		`{"joint_names":[` + strings.Repeat(`"",`, MaxJoints) + `""]}`:         "joint_names: too many elements: at most 256",
		`{"points":` + strings.Repeat("[", 100_000):                            "nested too deeply: byte 26, at most 16 levels",
	} {
		m, _, err := ParseTrajectory([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v; want %q", text, err, want)
		}
		if err != nil && (m.Points != nil || m.JointNames != nil) {
			t.Errorf("%.60q: a trajectory beside the error", text)
		}
	}
	if _, _, err := ParseTrajectory(make([]byte, MaxPayload+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("beyond the limit: %v", err)
	}
}

// text writes a trajectory as ParseTrajectory reads it.
func text(m *Trajectory) []byte {
	dst := []byte(`{"header":{"stamp":`)
	if m.Start.IsZero() {
		dst = append(dst, "null"...)
	} else {
		dst = fmt.Appendf(dst, `{"sec":%d,"nanosec":%d}`, m.Start.Unix(), m.Start.Nanosecond())
	}
	dst = append(dst, `},"id":`...)
	dst = appendString(dst, m.ID)
	dst = append(dst, `,"joint_names":`...)
	dst = appendStrings(dst, m.JointNames)
	dst = append(dst, `,"points":[`...)
	for i, p := range m.Points {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		for _, l := range []struct {
			key  string
			list []float64
		}{{"positions", p.Positions}, {"velocities", p.Velocities}, {"accelerations", p.Accelerations}, {"effort", p.Effort}} {
			dst = fmt.Appendf(dst, "%q:[", l.key)
			for i, x := range l.list {
				if i > 0 {
					dst = append(dst, ',')
				}
				if math.IsInf(x, 0) {
					dst = strconv.AppendQuote(dst, strings.TrimPrefix(strconv.FormatFloat(x, 'g', -1, 64)+"inity", "+"))
				} else {
					dst = appendFloat(dst, x)
				}
			}
			dst = append(dst, "],"...)
		}
		dst = fmt.Appendf(dst, `"time_from_start":%q}`, p.FromStart.String())
	}
	return append(dst, "]}"...)
}

func FuzzParseTrajectory(f *testing.F) {
	f.Add([]byte(`{"joint_names":["a"],"points":[{"positions":[1,null,"NaN"],"time_from_start":{"sec":1,"nsec":2}}]}`))
	f.Add([]byte(`{"id":"x","args":{"jointNames":["\ud800\""],"points":[{"effort":[-1e-9],"timeFromStart":"-1h"},{}]}}`))
	f.Add([]byte(`{"header":{"stamp":-5.25},"points":[{"time_from_start":1e9}]}`))
	f.Add([]byte(`{"points":[[[[`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, r, err := ParseTrajectory(b)
		if err != nil {
			return
		}
		again, s, err := ParseTrajectory(text(&m))
		if err != nil {
			t.Fatalf("%s\nbecomes %s\nwhich is refused: %v", b, text(&m), err)
		}
		if diff := cmp.Diff(m, again, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" || r.ID != s.ID {
			t.Fatalf("%s does not survive a round trip: %s", b, diff)
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	for _, s := range []string{
		"", "true", `{"data":1}`, `{"id":"a","client":"b","ttl_ms":1,"stamp_ns":2,"args":{"confirm":"3"}}`,
		`{"args":`, "\xff", `{"\u0069d":"\u0000"}`, `[{"a":"\\\""}]`, "{\"client\":\"\xdb\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRequest(b)
		if err != nil {
			return
		}
		r.Bool()
		r.Number()
		IsEcho(b)
		if r.Empty() {
			return
		}
		var out bytes.Buffer
		fmt.Fprintf(&out, `{"id":%s,"client":%s,"ttl_ms":%s,"args":%s`,
			appendString(nil, r.ID), appendString(nil, r.Client),
			appendFloat(nil, float64(r.TTL)/float64(time.Millisecond)), r.args)
		if !r.Stamp.IsZero() {
			fmt.Fprintf(&out, `,"stamp_ns":%d`, r.Stamp.UnixNano())
		}
		fmt.Fprintf(&out, `,"reason":%s}`, appendString(nil, r.Reason))
		if !json.Valid(out.Bytes()) {
			t.Fatalf("%q becomes %s", b, out.Bytes())
		}
		again, err := ParseRequest(out.Bytes())
		if err != nil || again.ID != r.ID || again.Client != r.Client || !again.Stamp.Equal(r.Stamp) || !bytes.Equal(again.args, r.args) {
			t.Fatalf("%q becomes %s: %+v, %v", b, out.Bytes(), again, err)
		}
	})
}

func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	for _, b := range []string{"{\"client\":\"\xdb\"}", "{\"id\":\"a\xff\"}", "\"\xc0\x80\""} {
		if _, err := ParseRequest([]byte(b)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %v, want ErrSyntax", b, err)
		}
	}
	if r, err := ParseRequest([]byte(`{"client":"prüfstand"}`)); err != nil || r.Client != "prüfstand" {
		t.Errorf("client %q, %v", r.Client, err)
	}
}
