package mqtt

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hilgate/bms"
	"hilgate/model"
	"hilgate/model/permit"
	"hilgate/model/unit"
	"hilgate/motor"
	"hilgate/mqtt/wire"
)

const root = "model/rover/"

func TestConnectionPublishesEverythingRetained(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	r := newRobot()
	c, _ := startClient(t, b.Addr().String(), r, nil)
	listen(t, b.Addr().String(), root+"gateway/#").until(t, root+"gateway/availability", "online") // the last word
	l := listen(t, b.Addr().String(), "#")
	for topic, text := range map[string]string{
		"battery/main/state":                       `{"voltage":15.2,"current":-2.5,`,
		"battery/main/estimate":                    `"soc":`,
		"battery/main/availability":                "online",
		"battery/main/consumer/lidar_1/power_load": `{"data":8,`,
		"joint_state":                              `"name":["left","right"],"position":[0.5,0.5]`,
		"joint/left/availability":                  "online",
		"joint/left/fault":                         `{"fault":0,`,
		"safety/state":                             `"estop_engaged":false`,
		"gateway/availability":                     "online",
		"gateway/info":                             `"model/rover/safety/state"`,
	} {
		if h := l.until(t, root+topic, text); !h.retained {
			t.Errorf("%s is not retained", topic)
		}
	}
	if s := c.Stats(); s.Connects != 1 || s.Losses != 0 || s.Failures != 0 || s.Published[wire.ClassState] == 0 {
		t.Errorf("%+v", s)
	}
}

func TestChangeOfStatusIsPublishedAtOnceWithQoS1(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	r := newRobot()
	startClient(t, b.Addr().String(), r, func(c *Config) { c.BatteryRate, c.EstimateRate = 0.01, 0.01 }) // too slow to help
	l := listen(t, b.Addr().String(), "#")
	l.until(t, root+"battery/main/state", `"voltage":15.2`)
	r.set(func(s *model.Snapshot) { s.Packs[0].Status, s.Packs[0].Empty = bms.NotCharging, true })
	if h := l.until(t, root+"battery/main/state", `"x_empty":true`); h.qos != 1 {
		t.Errorf("published with QoS %d, want 1", h.qos)
	}
	r.set(func(s *model.Snapshot) {
		s.Packs[0].Quality, s.Packs[0].Reading = bms.Stale, bms.Unmeasured()
	})
	l.until(t, root+"battery/main/availability", "offline")
	l.until(t, root+"battery/main/state", `{"voltage":null,`)
	r.set(func(s *model.Snapshot) { s.Groups[0].Connected = false })
	l.until(t, root+"joint/left/availability", "offline")
	l.until(t, root+"joint_state", `"position":[null,null]`)
	l.until(t, root+"safety/state", `"comms_ok":false`)
}

func TestNewClientRefusesBadConfigurations(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"no URL":                 func(c *Config) { c.Broker = "tcp://a b" },
		"user or a password":     func(c *Config) { c.Broker = "tcp://me:hunter2@host" },
		`scheme "http"`:          func(c *Config) { c.Broker = "http://host" },
		"no host":                func(c *Config) { c.Broker = "tcp://:1883" },
		"certificate":            func(c *Config) { c.TLS.CertFile = "x" },
		"payload limit":          func(c *Config) { c.MaxPayload = wire.MaxPayload + 1 },
		"battery rate of 51 Hz":  func(c *Config) { c.BatteryRate = 51 },
		"joint rate of NaN Hz":   func(c *Config) { c.JointRate = math.NaN() },
		"estimate rate of -1 Hz": func(c *Config) { c.EstimateRate = -1 },
	} {
		cfg := Config{Broker: "tcp://host", Robot: "rover"}
		change(&cfg)
		_, err := New(cfg, newRobot(), nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCommandsReachTheHandlerAndAreAnswered(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	r := newRobot()
	c, _ := startClient(t, b.Addr().String(), r, func(c *Config) {
		c.Extra = []Extra{{Topic: "/battery/discharge", Method: wire.MethodDrainStart, Battery: "main"}}
	})
	l := listen(t, b.Addr().String(), "#")
	l.until(t, root+"gateway/availability", "online")
	for i, x := range []struct{ topic, payload, call, answer string }{
		{root + "battery/main/recharge/start", "", "recharge main true", `"method":"recharge_start","phase":"accepted","code":0`},
		{root + "battery/main/recharge/stop", "true", "recharge main false", `"method":"recharge_stop","phase":"accepted"`},
		{root + "battery/main/drain/start", "anything at all", "drain main true", `"method":"drain_start","phase":"accepted"`},
		{root + "battery/main/drain/stop", `{"data":true}`, "drain main false", `"method":"drain_stop","phase":"accepted"`},
		{"battery/discharge", "", "drain main true", `"method":"drain_start","phase":"accepted"`},
		{root + "battery/main/consumer/lidar_1/power_load/set", "12.5", "consumer main Lidar 1 12.5", `"method":"power_load","phase":"accepted"`},
		{root + "req/recharge_start", `{"args":{"battery":"main"}}`, "recharge main true", `"phase":"accepted"`},
		{root + "estop/release", `{"confirm":"4"}`, "release 4", `"method":"estop_release","phase":"accepted"`},
		{root + "estop/engage", `{"source":"panel","reason":"smoke"}`, "estop panel smoke", `"method":"estop_engage","phase":"accepted"`},
		{root + "estop/engage", "\xff{", "estop mqtt ", `"method":"estop_engage","phase":"accepted"`},
		{root + "joint_trajectory", `{"joint_names":["left"],"points":[{"positions":[1]}]}`, "follow [left] 1", `"method":"joint_trajectory","phase":"accepted"`},
		{root + "battery/main/recharge/start", "please", "", `"phase":"rejected","code":400,"message":"malformed: not a JSON text`},
		{root + "battery/main/recharge/start", "false", "", `"code":400,"message":"malformed: data: false does not start`},
		{root + "battery/main/consumer/x/power_load/set", "null", "", `"code":400,"message":"malformed: data:`},
		{root + "estop/release", "", "", `"code":400,"message":"malformed: confirm: missing`},
		{root + "req/self_destruct", "", "", `"method":"self_destruct","phase":"rejected","code":404,"message":"unknown_method`},
		{root + "battery/main/recharge/dance", "", "", `"phase":"rejected","code":404`},
		{root + "joint_trajectory", `{"points":[{"positions":["x"]}]}`, "", `points[0].positions[0]: wrong kind of value`},
		{root + "joint_trajectory", strings.Repeat("[", 60_000), "", `nested too deeply`},
		{root + "joint_trajectory", strings.Repeat("x", DefaultMaxPayload+1), "", `"code":413,"message":"too_large`},
	} {
		before := len(r.called())
		l.say(t, x.topic, x.payload)
		id := fmt.Sprintf(`"id":"gateway-%d"`, i+1)
		h := l.until(t, root+"rsp/any", id)
		if x.topic == root+"joint_trajectory" && x.call != "" {
			if h.payload = l.heardOn(root + "rsp/any")[i]; !strings.Contains(h.payload, id) {
				t.Errorf("%s: %s", x.topic, h.payload)
			}
		}
		if !strings.Contains(h.payload, x.answer) || !json.Valid([]byte(h.payload)) {
			t.Errorf("%s %.40q is answered %s, want %s", x.topic, x.payload, h.payload, x.answer)
		}
		calls := r.called()[before:]
		if x.call == "" && len(calls) != 0 || x.call != "" && !slices.Equal(calls, []string{x.call}) {
			t.Errorf("%s %.40q calls %q, want %q", x.topic, x.payload, calls, x.call)
		}
	}
	l.until(t, root+"joint_trajectory/result", `"error":-1,"error_string":"too_large`)
	s := c.Stats()
	if s.Commands[wire.MethodRechargeStart] != 4 || s.Rejected[wire.MethodRechargeStart][wire.RejectMalformed] != 2 ||
		s.Rejected[wire.MethodUnknown][wire.RejectUnknown] != 2 || s.Rejected[wire.MethodTrajectory][wire.RejectTooLarge] != 1 {
		t.Errorf("%+v", s)
	}
}

func TestRefusalOfTheHandlerIsTold(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	r := newRobot()
	r.refuse = errBroken
	startClient(t, b.Addr().String(), r, nil)
	l := listen(t, b.Addr().String(), root+"rsp/#", root+"gateway/#", root+"joint_trajectory/result")
	l.until(t, root+"gateway/availability", "online")
	l.say(t, root+"battery/main/recharge/start", `{"id":"r1","client":"../ui"}`)
	l.until(t, root+"rsp/___ui", `{"id":"r1","method":"recharge_start","phase":"rejected","code":409,"message":"refused: the charger is broken"`)
	l.say(t, root+"joint_trajectory", `{"id":"t1","joint_names":["left"],"points":[{}]}`)
	l.until(t, root+"joint_trajectory/result", `{"id":"t1","error":-1,"error_string":"refused: the charger is broken","max_error":[]}`)
}

func TestRequestThatComesTwiceIsDoneOnce(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	r := newRobot()
	startClient(t, b.Addr().String(), r, nil)
	l := listen(t, b.Addr().String(), root+"rsp/#", root+"gateway/#")
	l.until(t, root+"gateway/availability", "online")
	for range 3 {
		l.say(t, root+"battery/main/recharge/start", `{"id":"r1","client":"ui"}`)
	}
	eventually(t, "three answers", func() bool { return len(l.heardOn(root+"rsp/ui")) == 3 })
	if answers := l.heardOn(root + "rsp/ui"); answers[0] != answers[1] || answers[1] != answers[2] {
		t.Errorf("answers differ: %q", answers)
	}
	l.say(t, root+"battery/main/recharge/start", `{"id":"r1","client":"other"}`)
	l.until(t, root+"rsp/other", "accepted")
	if calls := r.called(); len(calls) != 2 {
		t.Errorf("calls are %q", calls)
	}
}

func TestRequestThatWasNotDoneMayComeAgain(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	l := listen(t, b.Addr().String(), root+"rsp/#")
	const request = `{"id":"r1","client":"ui"}`
	confirmed(t, "publish", l.Publish(root+"battery/main/recharge/start", 1, true, request))
	l.say(t, root+"rsp/all_there", "yes")
	l.until(t, root+"rsp/all_there", "yes")
	r := newRobot()
	startClient(t, b.Addr().String(), r, nil)
	l.until(t, root+"rsp/ui", `"phase":"rejected","code":403`)
	l.say(t, root+"battery/main/recharge/start", request)
	l.until(t, root+"rsp/ui", `"phase":"accepted"`)
	if calls := r.called(); !slices.Equal(calls, []string{"recharge main true"}) {
		t.Errorf("calls are %q", calls)
	}
}

func TestFurtherViewsArePublished(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	r := newRobot()
	var confirmations atomic.Int64
	startClient(t, b.Addr().String(), r, func(c *Config) {
		c.Acknowledged = func(float64) { confirmations.Add(1) }
		c.Views = []wire.View{func(dst []wire.Message, s *model.Snapshot) []wire.Message {
			return append(dst, wire.Message{Topic: "fleet/" + s.Robot, Payload: []byte("here"), Retain: true, QoS: 1})
		}}
	})
	l := listen(t, b.Addr().String(), "fleet/#", root+"gateway/info")
	l.until(t, "fleet/rover", "here")
	l.until(t, root+"gateway/info", `"fleet/rover"`)
	eventually(t, "confirmed", func() bool { return confirmations.Load() > 0 })
}

func TestAnswersForgetTheOldest(t *testing.T) {
	a := newAnswers()
	for i := range 2 * mostAnswers {
		a.keep(fmt.Sprint(i), []byte{1})
		a.keep("0", []byte{byte(i)}) // refreshed each time
	}
	a.keep("", []byte{1})
	if len(a.byKey) != mostAnswers || a.order.Len() != mostAnswers {
		t.Errorf("%d answers are remembered, want %d", len(a.byKey), mostAnswers)
	}
	if _, ok := a.last("0"); !ok {
		t.Error("the answer that was used last is forgotten")
	}
	if _, ok := a.last("1"); ok {
		t.Error("the oldest answer is not forgotten")
	}
	if _, ok := a.last(""); ok {
		t.Error("requests without an id are taken for one another")
	}
}

func TestTimeToLiveEnds(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		ttl  time.Duration
		sent time.Duration // before now; 0: not said
		came time.Duration
		want bool
	}{
		"unbounded":                      {0, time.Hour, time.Hour, false},
		"fresh":                          {time.Second, 0, 100 * time.Millisecond, false},
		"too long in the queue":          {time.Second, 0, 1100 * time.Millisecond, true},
		"too long on the way":            {time.Second, 1500 * time.Millisecond, 10 * time.Millisecond, true},
		"on the way, but alive":          {2 * time.Second, 1500 * time.Millisecond, 10 * time.Millisecond, false},
		"clocks disagree, fresh":         {time.Second, time.Hour, 10 * time.Millisecond, false},
		"clocks disagree, the other way": {time.Second, -time.Hour, 2 * time.Second, true},
	} {
		req := wire.Request{TTL: c.ttl}
		if c.sent != 0 {
			req.Stamp = time.Unix(0, now.Add(-c.sent).UnixNano())
		}
		if got := expired(&req, now.Add(-c.came), now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRetainedCommandsAreRefusedExceptEStop(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	l := listen(t, b.Addr().String(), root+"rsp/#", root+"gateway/#", root+"joint_trajectory/result")
	for topic, payload := range map[string]string{
		"battery/main/recharge/start":            `{"id":"a","client":"ui"}`,
		"joint_trajectory":                       `{"id":"b","joint_names":["left"],"points":[{}]}`,
		"estop/release":                          `{"confirm":1}`,
		"estop/engage":                           `{"source":"wall"}`,
		"battery/main/consumer/x/power_load/set": "5",
		"req/drain_start":                        `{"args":{"battery":"main"}}`,
	} {
		confirmed(t, "publish", l.Publish(root+topic, 1, true, payload))
	}
	l.say(t, root+"gateway/all_there", "yes") // a broker may confirm a message before it passes it on
	l.until(t, root+"gateway/all_there", "yes")
	r := newRobot()
	c, _ := startClient(t, b.Addr().String(), r, nil)
	l.until(t, root+"rsp/ui", `{"id":"a","method":"recharge_start","phase":"rejected","code":403,"message":"retained"`)
	l.until(t, root+"joint_trajectory/result", `"error":-1,"error_string":"retained"`)
	eventually(t, "all judged", func() bool {
		s := c.Stats()
		n := uint64(0)
		for m := range wire.Methods {
			n += s.Rejected[m][wire.RejectRetained]
		}
		return n == 5
	})
	if calls := r.called(); !slices.Equal(calls, []string{"estop wall "}) {
		t.Errorf("retained commands call %q, want the emergency stop alone", calls)
	}
}

func TestFloodOfCommandsIsRefusedButEStopIsNot(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	r := newRobot()
	r.hold = make(chan struct{})
	c, _ := startClient(t, b.Addr().String(), r, nil)
	l := listen(t, b.Addr().String(), root+"rsp/#", root+"gateway/#")
	l.until(t, root+"gateway/availability", "online")
	const flood = 200
	for range flood {
		l.say(t, root+"battery/main/drain/start", "")
	}
	l.say(t, root+"estop/engage", "")
	eventually(t, "stopped", func() bool { return slices.Contains(r.called(), "estop mqtt ") })
	close(r.hold)
	eventually(t, "all judged", func() bool { return c.Stats().Commands[wire.MethodDrainStart] == flood })
	s := c.Stats()
	done := uint64(len(r.called()) - 1)
	if refused := s.Rejected[wire.MethodDrainStart][wire.RejectBusy]; done+refused != flood || refused < flood/2 {
		t.Errorf("%d are done and %d refused of %d", done, refused, flood)
	}
	l.until(t, root+"rsp/any", `"phase":"rejected","code":429,"message":"busy"`)
}

func TestOwnEchoIsNoCommand(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	r := newRobot()
	c, stop := startClient(t, b.Addr().String(), r, nil)
	l := listen(t, b.Addr().String(), "#")
	topic := root + "battery/main/consumer/fan/power_load"
	l.until(t, root+"gateway/availability", "online")
	confirmed(t, "publish", l.Publish(topic, 1, true, "3.5")) // as a user does it, retained
	l.until(t, topic, `{"data":3.5,"x_source":"gateway"}`)
	confirmed(t, "publish", l.Publish(topic, 1, true, ""))
	eventually(t, "removed", func() bool { return slices.Contains(r.called(), "remove main fan") })
	l.say(t, topic, "4")
	l.until(t, topic, `{"data":4,"x_source":"gateway"}`)
	l.say(t, root+"battery/main/drain/stop", `{"id":"last"}`)
	l.until(t, root+"rsp/any", `"last"`)
	if calls := r.called(); !slices.Equal(calls, []string{"consumer main fan 3.5", "remove main fan", "consumer main fan 4", "drain main false"}) {
		t.Errorf("calls are %q", calls)
	}
	if n := c.Stats().Commands[wire.MethodPowerLoad]; n != 3 {
		t.Errorf("%d commands are counted, want 3", n)
	}

	// The next life of the gateway knows nothing of the fan, and takes the old message off the broker.
	stop()
	next := newRobot()
	startClient(t, b.Addr().String(), next, nil)
	eventually(t, "cleared", func() bool { all := l.heardOn(topic); return all[len(all)-1] == "" })
	if calls := next.called(); len(calls) != 0 {
		t.Errorf("an old echo calls %q", calls)
	}
	if all := l.heardOn(root + "battery/main/consumer/lidar_1/power_load"); slices.Contains(all, "") {
		t.Errorf("the topic of a consumer that there is was cleared: %q", all)
	}
}

func TestTrajectoryIsFollowedToItsEnd(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	r := newRobot()
	startClient(t, b.Addr().String(), r, nil)
	l := listen(t, b.Addr().String(), root+"rsp/#", root+"gateway/#", root+"joint_trajectory_progress", root+"joint_trajectory/result")
	l.until(t, root+"gateway/availability", "online")
	progress := func(id uint64, active bool, ratio float32, changed uint64, target float64) {
		r.set(func(s *model.Snapshot) {
			s.Groups[0].Trajectory = motor.Progress{ID: id, Active: active, Ratio: ratio, Changed: changed}
			s.Groups[0].Joints[0].Target.Position = unit.Position(target)
		})
	}
	send := func(id string) {
		t.Helper()
		l.say(t, root+"joint_trajectory", `{"id":"`+id+`","client":"ui","joint_names":["left"],"points":[{"positions":[1]},{}]}`)
	}
	send("t1")
	l.until(t, root+"rsp/ui", `{"id":"t1","method":"joint_trajectory","phase":"accepted","code":0,"message":"","result":{"trajectory":1}`)
	progress(1, true, 0.5, 1, 0.75)
	l.until(t, root+"rsp/ui", `"phase":"running"`)
	l.until(t, root+"joint_trajectory_progress", `{"data":0.5}`)
	progress(1, false, 1, 2, 0.6)
	l.until(t, root+"joint_trajectory_progress", `{"data":1}`)
	l.until(t, root+"joint_trajectory/result", `{"id":"t1","error":0,"error_string":"","max_error":[0.25]}`)
	l.until(t, root+"rsp/ui", `"phase":"done"`)

	send("t2")
	l.until(t, root+"rsp/ui", `"trajectory":2`)
	progress(2, true, 0.5, 3, 0.5)
	l.until(t, root+"rsp/ui", `"phase":"running"`)
	r.stop(permit.EStop)
	progress(2, false, 0.5, 3, 0.5)
	l.until(t, root+"joint_trajectory/result", `{"id":"t2","error":-4,"error_string":"stopped: estop"`)
	l.until(t, root+"rsp/ui", `"phase":"failed","code":-4`)

	send("t3")
	l.until(t, root+"rsp/ui", `"trajectory":3`)
	send("t4")
	l.until(t, root+"rsp/ui", `"trajectory":4`)
	progress(4, true, 0.5, 4, 0.5)
	l.until(t, root+"joint_trajectory/result", `{"id":"t3","error":-4,"error_string":"replaced by a newer trajectory"`)
}

func TestEndOfRunSaysOffline(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	r := newRobot()
	c, stop := startClient(t, b.Addr().String(), r, func(c *Config) { c.BatteryRate = 0.01 })
	l := listen(t, b.Addr().String(), "#")
	l.until(t, root+"gateway/availability", "online")
	r.set(func(s *model.Snapshot) { s.Packs[0].Reading.Voltage = 14.75 })
	began := time.Now()
	stop()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the farewell took %v", took)
	}
	l.until(t, root+"gateway/availability", "offline")
	l.until(t, root+"battery/main/state", `"voltage":14.75`)
	l.mu.Lock()
	last := l.all[len(l.all)-1]
	l.mu.Unlock()
	if last.topic != root+"gateway/availability" {
		t.Errorf("the last word is %s on %s", last.payload, last.topic)
	}
	if c.Stats().Connected {
		t.Error("it counts as connected")
	}
}

func TestClientReturnsAfterTheBroker(t *testing.T) {
	b, stopBroker := startBroker(t, "127.0.0.1:0")
	address := b.Addr().String()
	r := newRobot()
	c, _ := startClient(t, address, r, nil)
	eventually(t, "connected", func() bool { return c.Stats().Connected })
	stopBroker()
	eventually(t, "lost", func() bool { return !c.Stats().Connected })
	r.set(func(s *model.Snapshot) { s.Packs[0].Reading.Voltage = 14.5 })
	eventually(t, "dropped", func() bool { return c.Stats().Dropped > 0 })
	startBroker(t, address)
	eventually(t, "connected again", func() bool { return c.Stats().Connected })
	l := listen(t, address, "#")
	l.until(t, root+"gateway/availability", "online")
	l.until(t, root+"battery/main/state", `"voltage":14.5`)
	l.say(t, root+"battery/main/drain/start", "")
	eventually(t, "commanded", func() bool { return slices.Contains(r.called(), "drain main true") })
	if s := c.Stats(); s.Connects != 2 || s.Losses != 1 {
		t.Errorf("%d connections, %d losses; want 2 and 1", s.Connects, s.Losses)
	}
}

func TestRunEndsWhileThereIsNoBroker(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r := newRobot()
	c, stop := startClient(t, silent.Addr().String(), r, nil)
	r.set(func(*model.Snapshot) {})
	eventually(t, "dropped", func() bool { return c.Stats().Dropped > 0 })
	began := time.Now()
	stop()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestLatencyFromSampleToSubscriber(t *testing.T) {
	b, _ := startBroker(t, "127.0.0.1:0")
	latency(t, b.Addr().String())
}

// latency reports how long a sample takes to a subscriber at QoS 1.
func latency(t *testing.T, address string) {
	t.Helper()
	r := newRobot()
	startClient(t, address, r, nil)
	topic := root + "battery/main/state"
	l := listen(t, address, topic)
	l.until(t, topic, `"voltage":15.2`)
	n := 100
	if os.Getenv("HIL_TEST_ALL") == "1" {
		n = 1000
	}
	took := make([]time.Duration, n)
	for i := range took {
		// The status changes with each sample, so that each is published at once, with QoS 1.
		voltage := 10 + float64(i)/1000
		at := time.Now()
		r.set(func(s *model.Snapshot) {
			s.Packs[0].Reading.Voltage, s.Packs[0].Status = unit.Volts(voltage), bms.Status(1+i%2)
		})
		h := l.until(t, topic, fmt.Sprintf(`{"voltage":%v,`, float32(voltage)))
		took[i] = h.at.Sub(at)
		if h.qos != 1 {
			t.Fatalf("published with QoS %d, want 1", h.qos)
		}
	}
	slices.Sort(took)
	t.Logf("sample to subscriber, QoS 1, %d samples: median %v, p99 %v, max %v", n, took[n/2], took[n*99/100], took[n-1])
}
