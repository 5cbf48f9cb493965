//go:build unix

package main

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// robot is two processes side by side: the simulators, and the gateway that opens them through the kernel,
// with mosquitto between the gateway and the test.
type robot struct {
	sim, gateway, broker *process
	port                 int // of the broker
	sub                  subscriber
	truth, http          string // URLs
	file                 string
}

// bench starts a robot from configs/bench.yaml, at addresses of its own. Without FUSE there is no I²C node
// for another process, and the test is skipped.
func bench(t *testing.T, edit ...string) *robot {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		lacking(t, "an I²C device node needs root and /dev/fuse")
	}
	r := &robot{}
	r.port, r.broker = mosquitto(t)
	r.file = benchFile(t, r.port, edit...)
	r.sub = subscribe(t, r.port, published...)

	r.sim = gateway(t, "sim", "--config", r.file, "--http", "127.0.0.1:0")
	r.truth = strings.TrimPrefix(r.sim.waitFor(t, 10*time.Second, "truth: "), "truth: ")
	r.run(t)
	return r
}

// run starts the gateway and waits until both joints may run.
func (r *robot) run(t *testing.T) {
	t.Helper()
	r.gateway = gateway(t, "run", "--config", r.file)
	started := r.gateway.waitFor(t, 10*time.Second, "gateway starts")
	_, after, _ := strings.Cut(started, "http=")
	addr, _, _ := strings.Cut(after, " ")
	r.http = "http://" + addr
	eventually(t, 15*time.Second, "ready", func() bool {
		code, _ := fetch(t, r.http+"/-/ready")
		return code == http.StatusOK && r.state(t).at("safety", "withheld").v != nil && r.free(t)
	})
}

func (r *robot) state(t *testing.T) tree { t.Helper(); return document(t, r.http+"/api/state") }

// free reports whether nothing withholds a joint.
func (r *robot) free(t *testing.T) bool {
	t.Helper()
	l, ok := r.state(t).at("safety", "withheld").v.([]any)
	return ok && len(l) == 0
}

// withheld waits until a joint is withheld for a reason.
func (r *robot) withheld(t *testing.T, reason string) {
	t.Helper()
	eventually(t, 15*time.Second, "joints withheld by "+reason, func() bool {
		return r.state(t).at("motors", 0, "joints", 0, "withheld").has(reason)
	})
}

// outputs are the magnitudes of the voltages on the two motors, as physics has them.
func (r *robot) outputs(t *testing.T) float64 {
	t.Helper()
	d := document(t, r.truth)
	if !d.at("joints", 1).known() {
		t.Fatal("the truth page does not answer")
	}
	return math.Max(math.Abs(d.at("joints", 0, "output").float()), math.Abs(d.at("joints", 1, "output").float()))
}

// benchFile is configs/bench.yaml with addresses of this test's own. Each edit is old=>new.
func benchFile(t *testing.T, broker int, edit ...string) string {
	t.Helper()
	src, err := os.ReadFile("../../configs/bench.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := string(src)
	edit = append([]string{
		"/dev/i2c-21=>" + filepath.Join(dir, "i2c-21"),
		"/tmp/hilgate/drive=>" + filepath.Join(dir, "drive"),
		`embedded: {listen: "127.0.0.1:1883"}` + "=>" + fmt.Sprintf("broker: tcp://127.0.0.1:%d", broker),
		"\nsimulate:=>\nhttp: {listen: \"127.0.0.1:0\"}\n\nsimulate:",
	}, edit...)
	for _, e := range edit {
		old, fresh, _ := strings.Cut(e, "=>")
		if !strings.Contains(text, old) {
			t.Fatalf("configs/bench.yaml has no %q to replace", old)
		}
		text = strings.ReplaceAll(text, old, fresh)
	}
	file := filepath.Join(dir, "bench.yaml")
	write(t, file, text)
	return file
}

// swing is a trajectory of both joints that keeps them moving for half a minute.
func swing(id string) string {
	var points []string
	for i := range 60 {
		target := 1.0
		if i%2 == 1 {
			target = -1
		}
		points = append(points, fmt.Sprintf(`{"positions":[%v,%v],"time_from_start":{"sec":%d,"nanosec":%d}}`,
			target, -target, (i+1)/2, (i+1)%2*500_000_000))
	}
	return fmt.Sprintf(`{"id":%q,"client":"test","args":{"joint_names":["left","right"],"points":[%s]}}`, id, strings.Join(points, ","))
}

// answered reports whether an answer with that text has come to client test.
func (r *robot) answered(text string) bool {
	return slices.ContainsFunc(r.sub.on(base+"rsp/test"), func(a string) bool { return strings.Contains(a, text) })
}

const base = "model/bench/"

// published is what the gateway publishes; its command topics are left to it.
var published = []string{
	base + "battery/#", base + "joint/#", base + "joint_state", base + "joint_trajectory_progress",
	base + "joint_trajectory/result", base + "safety/#", base + "gateway/#", base + "rsp/#",
}

// move sends a trajectory and waits until the motors really work.
func (r *robot) move(t *testing.T, id string) {
	t.Helper()
	publish(t, r.port, base+"joint_trajectory", swing(id))
	eventually(t, 10*time.Second, "the motors work", func() bool { return r.outputs(t) > 1 })
}

func TestTrajectoryOverMQTTMovesTheJointsAndTellsItsProgress(t *testing.T) {
	r := bench(t)
	publish(t, r.port, base+"joint_trajectory",
		`{"id":"a","client":"test","args":{"joint_names":["left","right"],"points":[
		{"positions":[0.5,-0.5],"time_from_start":{"sec":1}},{"positions":[1,-1],"time_from_start":{"sec":2}}]}}`)
	eventually(t, 10*time.Second, "accepted", func() bool {
		return r.answered(`"phase":"accepted"`)
	})
	eventually(t, 15*time.Second, "progress 1", func() bool {
		return parse(r.sub.last(base+"joint_trajectory_progress")).at("data").float() == 1
	})
	eventually(t, 15*time.Second, "both joints arrive", func() bool {
		s := parse(r.sub.last(base + "joint_state"))
		return math.Abs(s.at("position", 0).float()-1) < 0.1 && math.Abs(s.at("position", 1).float()+1) < 0.1
	})
	d := document(t, r.truth)
	for i, want := range []float64{1, -1} {
		if got := d.at("joints", i, "position").float(); math.Abs(got-want) > 0.1 {
			t.Errorf("%s is really at %v rad, want %v", d.at("joints", i, "name").text(), got, want)
		}
	}
	if first := parse(r.sub.on(base + "joint_trajectory_progress")[0]).at("data").float(); first != 0.5 {
		t.Errorf("first progress %v, want 0.5", first)
	}
}

func TestBatteryStateIsHORUSAndTrue(t *testing.T) {
	r := bench(t)
	eventually(t, 10*time.Second, "a state that discharges", func() bool {
		return parse(r.sub.last(base+"battery/main/state")).at("power_supply_status").float() == 2
	})
	s, d := parse(r.sub.last(base+"battery/main/state")), document(t, r.truth)
	if got, want := s.at("voltage").float(), d.at("packs", 0, "voltage").float(); math.Abs(got-want) > 0.2 {
		t.Errorf("voltage %v, really %v", got, want)
	}
	if got, want := s.at("percentage").float(), 100*d.at("packs", 0, "soc").float(); math.Abs(got-want) > 5 {
		t.Errorf("percentage %v, really %v", got, want)
	}
	if got := s.at("cell_count").float(); got != 4 {
		t.Errorf("cell_count %v, want 4", got)
	}
	if got, want := s.at("current").float(), d.at("packs", 0, "current").float(); math.Abs(got-want) > 0.1 {
		t.Errorf("current %v, really %v", got, want)
	}
}

func TestEStopStopsAndOnlyItsReleaseFrees(t *testing.T) {
	r := bench(t)
	r.move(t, "a")
	publish(t, r.port, base+"estop/engage", `{"reason":"test","source":"me"}`)
	eventually(t, 5*time.Second, "no output", func() bool { return r.outputs(t) == 0 })
	r.withheld(t, "estop")
	eventually(t, 5*time.Second, "safety/state says so", func() bool {
		return parse(r.sub.last(base + "safety/state")).at("estop_engaged").true()
	})
	publish(t, r.port, base+"joint_trajectory", swing("b"))
	eventually(t, 5*time.Second, "refused with its reason", func() bool {
		return r.answered(`"id":"b","method":"joint_trajectory","phase":"rejected","code":409,"message":"refused: joint left may not run now: estop`)
	})
	id := r.state(t).at("safety", "estop_id").float()
	publish(t, r.port, base+"estop/release", `{"id":"r1","client":"test","args":{"confirm":"77"}}`)
	publish(t, r.port, base+"estop/release", fmt.Sprintf(`{"id":"r2","client":"test","args":{"confirm":"%v"}}`, id))
	eventually(t, 5*time.Second, "released", func() bool { return r.free(t) })
	if got := r.outputs(t); got > 1 {
		t.Errorf("output %v V after the release without a new trajectory", got)
	}
	r.move(t, "c")
}

// A broker marks a retained message only for those who subscribe after it came: so the commands wait for the
// gateway here, as they would after a restart.
func TestRetainedCommandsAreRefusedButForTheEStop(t *testing.T) {
	r := bench(t)
	r.gateway.signal(t, syscall.SIGTERM)
	r.gateway.exit(t, 5*time.Second)
	publish(t, r.port, base+"joint_trajectory", swing("t0"), "-r")
	publish(t, r.port, base+"battery/main/recharge/start", `{"id":"c0","client":"test"}`, "-r")
	r.run(t)
	for _, id := range []string{"t0", "c0"} {
		eventually(t, 5*time.Second, id+" is refused", func() bool { return r.answered(fmt.Sprintf(`"id":%q,"method":`, id)) })
	}
	for _, a := range r.sub.on(base + "rsp/test") {
		if !strings.Contains(a, `"phase":"rejected","code":403,"message":"retained"`) {
			t.Errorf("answer %s, want it refused as retained", a)
		}
	}
	if got := r.outputs(t); got != 0 {
		t.Errorf("output %v V by a retained trajectory", got)
	}
	r.gateway.signal(t, syscall.SIGTERM)
	r.gateway.exit(t, 5*time.Second)
	publish(t, r.port, base+"estop/engage", "stop", "-r")
	r.gateway = gateway(t, "run", "--config", r.file)
	eventually(t, 10*time.Second, "a retained emergency stop is engaged", func() bool {
		return parse(r.sub.last(base + "safety/state")).at("estop_engaged").true()
	})
}

func TestKilledGatewayLeavesNoMotorRunning(t *testing.T) {
	r := bench(t)
	r.move(t, "a")
	r.gateway.signal(t, syscall.SIGKILL)
	<-r.gateway.done
	died := document(t, r.truth).at("seconds").float()
	// Each look at the truth is of one moment: a motor that gets power has had a valid packet not long ago.
	var d tree
	eventually(t, 5*time.Second, "no output", func() bool {
		d = document(t, r.truth)
		age := d.at("devices", 1, "state", "packet_age_seconds").float()
		runs := d.at("joints", 0, "output").float() != 0 || d.at("joints", 1, "output").float() != 0
		if runs && age > 0.3+0.001 { // the world's step
			t.Fatalf("a motor gets power %.3f s after the last packet, with a serial timeout of 0.3 s", age)
		}
		return !runs
	})
	if !d.at("devices", 1, "state", "timed_out").true() {
		t.Error("the controller does not say that its serial timeout has run out")
	}
	t.Logf("motors seen at zero %.0f ms after the gateway was killed", 1000*(d.at("seconds").float()-died))
	eventually(t, 30*time.Second, "the will says offline", func() bool {
		return r.sub.last(base+"gateway/availability") == "offline"
	})
	r.run(t) // and the robot is there again
	r.move(t, "b")
}

func TestSIGTERMStopsMotorsThenSaysOfflineThenExits(t *testing.T) {
	r := bench(t)
	r.move(t, "a")
	begin := time.Now()
	r.gateway.signal(t, syscall.SIGTERM)
	if code := r.gateway.exit(t, 5*time.Second); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	took := time.Since(begin)
	t.Logf("stopped in %v", took.Round(time.Millisecond))
	if took > 2*time.Second {
		t.Errorf("took %v, want at most 2 s", took)
	}
	if got := r.outputs(t); got != 0 {
		t.Errorf("output %v V after the stop", got)
	}
	eventually(t, 5*time.Second, "offline", func() bool { return r.sub.last(base+"gateway/availability") == "offline" })
	lines := r.sub.find(base)
	last := parse(r.sub.last(base + "safety/state"))
	if !strings.Contains(lines[len(lines)-1], "availability offline") {
		t.Errorf("last message is %q, want gateway/availability offline; safety was %v", lines[len(lines)-1], last.v)
	}
}

func TestUnpluggedPortStopsAndComesBackWithItsTimeoutArmed(t *testing.T) {
	r := bench(t)
	r.move(t, "a")
	put(t, r.truth, "plugged/drive", "false")
	r.withheld(t, "device_lost")
	eventually(t, 5*time.Second, "no output", func() bool { return r.outputs(t) == 0 })
	eventually(t, 5*time.Second, "joint offline", func() bool {
		return r.sub.last(base+"joint/left/availability") == "offline"
	})
	if code, body := fetch(t, r.http+"/-/ready"); code != http.StatusServiceUnavailable || !strings.Contains(body, "base") {
		t.Errorf("/-/ready while unplugged: %d %s", code, body)
	}
	put(t, r.truth, "plugged/drive", "true")
	eventually(t, 20*time.Second, "free again", func() bool { return r.free(t) })
	before := document(t, r.truth)
	if got := r.outputs(t); got > 1 {
		t.Errorf("output %v V after replugging without a new trajectory", got)
	}
	if got := before.at("devices", 1, "state", "timeout_seconds").float(); got != 0.3 {
		t.Errorf("timeout after replugging is %v s, want the 0.3 s of the file", got)
	}
	r.move(t, "b")
}

func TestLostPackStopsTheJoints(t *testing.T) {
	r := bench(t)
	r.move(t, "a")
	put(t, r.truth, "faults/gauge", `{"nack":1}`)
	r.withheld(t, "battery_lost")
	eventually(t, 5*time.Second, "no output", func() bool { return r.outputs(t) == 0 })
	s := parse(r.sub.last(base + "battery/main/state"))
	if s.at("voltage").known() {
		t.Errorf("a lost pack still shows %v V", s.at("voltage").v)
	}
	if _, body := fetch(t, r.http+"/metrics"); strings.Contains(body, "battery_volts{") || !strings.Contains(body, `battery_up{battery="main"} 0`) {
		t.Error("metrics of a lost pack: want battery_up 0 and no battery_volts")
	}
	put(t, r.truth, "faults/gauge", `{}`)
	eventually(t, 20*time.Second, "free again", func() bool { return r.free(t) })
}

func TestGarbageTrajectoriesAreRefusedAndTheRunningOneGoesOn(t *testing.T) {
	// Moving 100 MB through three processes can starve the simulator, which no real controller shares a
	// processor with: it gets more time to answer.
	r := bench(t, "timeout: 300ms}=>timeout: 2s, reply_timeout: 150ms}")
	r.move(t, "good")
	deep := strings.Repeat("[", 60_000)
	for _, c := range []struct{ name, payload, want string }{
		{"unknown joint", `{"joint_names":["tail"],"points":[{"positions":[1],"time_from_start":{"sec":1}}]}`, "tail"},
		{"NaN", `{"joint_names":["left"],"points":[{"positions":["NaN"],"time_from_start":{"sec":1}}]}`, "NaN"},
		{"falling times", `{"joint_names":["left"],"points":[{"positions":[1],"time_from_start":{"sec":2}},{"positions":[1],"time_from_start":{"sec":1}}]}`, "time"},
		{"no points", `{"joint_names":["left"],"points":[]}`, "point"},
		{"beyond a limit", `{"joint_names":["left"],"points":[{"velocities":[1e9],"time_from_start":{"sec":1}}]}`, "left"},
		{"deep nesting", `{"joint_names":` + deep, ""},
		{"no JSON", "hello", ""},
		{"100 MB", strings.Repeat("x", 100<<20), ""},
	} {
		before := len(r.sub.on(base + "joint_trajectory/result"))
		publish(t, r.port, base+"joint_trajectory", c.payload)
		eventually(t, 20*time.Second, c.name+" is refused", func() bool { return len(r.sub.on(base+"joint_trajectory/result")) > before })
		last := r.sub.last(base + "joint_trajectory/result")
		if parse(last).at("error").float() >= 0 || !strings.Contains(last, c.want) {
			t.Errorf("%s: %s", c.name, last)
		}
		t.Logf("%s: %s", c.name, last)
	}
	eventually(t, 5*time.Second, "the good one still runs", func() bool { return r.outputs(t) > 1 })
	if !r.state(t).at("motors", 0, "trajectory_active").true() {
		t.Error("the running trajectory was dropped")
	}
}

func TestBrokerComesBackAndSoDoesTheGateway(t *testing.T) {
	r := bench(t)
	r.move(t, "a")
	r.broker.signal(t, syscall.SIGKILL)
	<-r.broker.done
	eventually(t, 10*time.Second, "mqtt is missed", func() bool {
		_, body := fetch(t, r.http+"/-/ready")
		return strings.Contains(body, "mqtt")
	})
	if r.outputs(t) == 0 {
		t.Error("the loss of the broker stopped the motors, which need it only for commands")
	}
	r.broker = startMosquitto(t, need(t, "mosquitto"), r.port)
	r.sub = subscribe(t, r.port, published...)
	eventually(t, 30*time.Second, "online again, with the state", func() bool {
		return r.sub.last(base+"gateway/availability") == "online" && r.sub.last(base+"battery/main/state") != ""
	})
	r.move(t, "b")
}

func put(t *testing.T, truth, path, body string) {
	t.Helper()
	url := strings.TrimSuffix(truth, "truth") + path
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("PUT %s: %s", path, resp.Status)
	}
}
