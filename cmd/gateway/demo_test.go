//go:build unix

package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"hilgate/metrics/grafana"
	"hilgate/metrics/grafana/grafanatest"
)

// demo is a demo that has said where to look.
type demo struct {
	*process
	port int    // of its broker
	http string // URL
}

func startDemo(t testing.TB, args ...string) *demo {
	t.Helper()
	d := &demo{port: freePort(t)}
	d.process = gateway(t, append([]string{"demo", "--mqtt", fmt.Sprintf("127.0.0.1:%d", d.port), "--http", "127.0.0.1:0"}, args...)...)
	line := d.waitFor(t, 10*time.Second, "metrics   ")
	d.http = strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(line, "metrics")), "/metrics")
	return d
}

func (d *demo) state(t testing.TB) tree { t.Helper(); return document(t, d.http+"/api/state") }

func TestDemoSaysWhereToLookAndStopsByItself(t *testing.T) {
	d := startDemo(t, "--duration", "3s", "--every", "500ms")
	for _, want := range []string{"mosquitto_sub -h 127.0.0.1 -p ", "/metrics", "/api/state", "port      drive at /dev/pts/", "Ctrl-C"} {
		d.waitFor(t, 5*time.Second, want)
	}
	d.waitFor(t, 5*time.Second, "discharging")
	if code := d.exit(t, 10*time.Second); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}

func TestDemoStopsInOrderOnCtrlC(t *testing.T) {
	d := startDemo(t, "--quiet")
	sub := subscribe(t, d.port, "model/#")
	eventually(t, 10*time.Second, "online", func() bool { return sub.last("model/rover/gateway/availability") == "online" })
	d.signal(t, os.Interrupt.(syscall.Signal))
	if code := d.exit(t, 5*time.Second); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	eventually(t, 5*time.Second, "offline", func() bool { return sub.last("model/rover/gateway/availability") == "offline" })
}

func TestDemoTakesAFreePortForABusyDefaultOnly(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := gateway(t, "demo", "--mqtt", ln.Addr().String(), "--http", "127.0.0.1:0", "--duration", "1s")
	if code := p.exit(t, 10*time.Second); code != exitFailed || !strings.Contains(p.output(), "address already in use") {
		t.Errorf("an address that was asked for and is busy: exit status %d, want %d, and the reason:\n%s", code, exitFailed, p.output())
	}
	p = gateway(t, "demo", "--mqtt", ln.Addr().String(), "--duration", "1s") // the other one has its default
	if p.exit(t, 10*time.Second); len(p.find(ln.Addr().String()+": bind: address already in use: taking")) != 0 ||
		len(p.find("broker: ")) != 1 {
		t.Errorf("a busy broker's address that was asked for is said to give way:\n%s", p.output())
	}
	for _, busy := range []string{"127.0.0.1:1883", "127.0.0.1:9743"} {
		if ln, err := net.Listen("tcp", busy); err == nil { // else someone else keeps it busy
			defer ln.Close()
		}
	}
	p = gateway(t, "demo", "--quiet", "--duration", "100ms")
	if code := p.exit(t, 10*time.Second); code != 0 || len(p.find("taking a free port instead")) != 2 {
		t.Errorf("both defaults busy: exit status %d, want 0 and a word about each:\n%s", code, p.output())
	}
}

func TestCommandsRefuseWhatMakesNoSense(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"demo --speed 0", "--speed 0: want 1 to 1000"},
		{"demo --every 0s", "--every 0s: want more than 0"},
		{"demo --duration -1s", "--duration -1s: want a time"},
		{"demo --mqtt 1883", "missing port in address"},
		{"demo --mqtt 127.0.0.1:0 --http 127.0.0.1:99999", "invalid port"},
		{"check robot.yaml", `gateway check: "robot.yaml": want flags alone, see gateway check --help`},
		{"run", `required flag(s) "config" not set`},
		{"probe", `unknown command "probe"`},
	} {
		var stdout, stderr strings.Builder
		if code := run(strings.Fields(c.args), &stdout, &stderr); code != exitBadUse || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("gateway %s: exit status %d, want %d, and %q in:\n%s", c.args, code, exitBadUse, c.want, stderr.String())
		}
	}
}

func TestDemoPrintsAnAddressOfIPv6AsMosquittoWantsIt(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	ln.Close()
	d := gateway(t, "demo", "--quiet", "--mqtt", "[::1]:0", "--http", "[::1]:0", "--duration", "100ms")
	d.waitFor(t, 10*time.Second, "mosquitto_sub -h ::1 -p ")
}

// A gateway whose reader went away, as `tee` does on Ctrl-C, still stops in order; a demo has nobody to run for.
func TestOutputThatNobodyReadsDoesNotKill(t *testing.T) {
	port, _ := mosquitto(t)
	sub := subscribe(t, port, "model/rover/gateway/availability")
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	unread := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = writer, writer
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		writer.Close()
		if _, err := reader.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		reader.Close()
		return cmd
	}
	service := unread("run", "--config", demoFile(t, port))
	eventually(t, 10*time.Second, "online", func() bool { return sub.last("model/rover/gateway/availability") == "online" })
	service.Process.Signal(syscall.SIGHUP)
	if err := service.Wait(); err != nil {
		t.Errorf("run, stopped by a hang-up: %v, want a stop in order", err)
	}
	if err := unread("demo", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0", "--every", "100ms").Wait(); err != nil {
		t.Errorf("demo: %v, want an end by itself", err)
	}
}

// The whole life of a pack: motion empties it, the motors stop, a charger is connected over MQTT, and motion
// resumes once the pack has recovered, and not before.
func TestDemoDischargesStopsRechargesAndMovesAgain(t *testing.T) {
	d := startDemo(t, "--speed", "300", "--quiet")
	sub := subscribe(t, d.port, "model/#")
	eventually(t, 20*time.Second, "both joints move", func() bool {
		s := parse(sub.last("model/rover/joint_state"))
		return math.Abs(s.at("velocity", 0).float()) > 0.5 && math.Abs(s.at("velocity", 1).float()) > 0.5
	})
	eventually(t, 120*time.Second, "the pack is empty", func() bool {
		return d.state(t).at("batteries", 0, "empty").true()
	})
	eventually(t, 5*time.Second, "no command to either motor", func() bool {
		g := d.state(t).at("motors", 0, "joints")
		return g.at(0, "mode").text() == "stop" && g.at(1, "mode").text() == "stop" && g.at(0, "withheld").has("battery_empty")
	})
	publish(t, d.port, "model/rover/battery/main/recharge/start", "true")
	eventually(t, 20*time.Second, "the pack charges", func() bool {
		return parse(sub.last("model/rover/battery/main/state")).at("power_supply_status").float() == 1
	})
	eventually(t, 60*time.Second, "motion resumes", func() bool {
		s := d.state(t)
		moves := s.at("motors", 0, "joints", 0, "mode").text() == "effort"
		if soc := s.at("batteries", 0, "estimate", "state_of_charge_ratio").float(); moves && soc <= 0.05 {
			t.Fatalf("motion resumed at a state of charge of %v, want above recover_soc of 0.05", soc)
		}
		return moves
	})
	publish(t, d.port, "model/rover/battery/main/recharge/stop", "true")
	eventually(t, 20*time.Second, "the pack discharges again", func() bool {
		return parse(sub.last("model/rover/battery/main/state")).at("power_supply_status").float() == 2
	})
}

func TestDemoNeedsNothingAndListensOnLoopbackOnly(t *testing.T) {
	d := startDemo(t, "--quiet")
	out, err := exec.Command("sh", "-c", fmt.Sprintf("cat /proc/%d/net/tcp /proc/%d/net/tcp6", d.Process.Pid, d.Process.Pid)).Output()
	if err != nil {
		t.Skip("no /proc/PID/net here")
	}
	for l := range strings.Lines(string(out)) {
		f := strings.Fields(l)
		if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", d.port)) && !strings.HasPrefix(f[1], "0100007F:") {
			t.Errorf("the broker listens at %s, want loopback only", f[1])
		}
	}
}

func TestEveryPanelHasDataFromTheDemo(t *testing.T) {
	grafanatest.NeedProgram(t, "prometheus")
	d := startDemo(t, "--quiet")
	eventually(t, 15*time.Second, "ready", func() bool {
		code, _ := fetch(t, d.http+"/-/ready")
		return code == http.StatusOK
	})
	prometheus := grafanatest.StartPrometheus(t, strings.TrimPrefix(d.http, "http://"))
	queries, err := grafana.All()
	if err != nil {
		t.Fatal(err)
	}
	var panels []grafana.Query
	for _, q := range queries {
		if q.Use == grafana.Panel {
			panels = append(panels, q)
		}
	}
	// An emergency stop is one of the things that a panel shows.
	publish(t, d.port, "model/rover/estop/engage", "test")
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	grafanatest.RequireData(ctx, t, prometheus, panels)
	t.Logf("%d panel queries have data", len(panels))
}

func TestScrapeIsCleanForPromtool(t *testing.T) {
	promtool := need(t, "promtool")
	d := startDemo(t, "--quiet")
	eventually(t, 15*time.Second, "ready", func() bool {
		code, _ := fetch(t, d.http+"/-/ready")
		return code == http.StatusOK
	})
	_, body := fetch(t, d.http+"/metrics")
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(body)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	if strings.Contains(body, "NaN") {
		t.Error("the page has a NaN")
	}
}

func TestCheckTellsEveryFaultWithItsLineAndOpensNothing(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/robot.yaml"
	write(t, file, "robot: Rover One\nbuses:\n  gauge: {device: /dev/i2c-1}\nbatteries:\n  main: {driver: sbs, bus: gouge, model: {capacity: -1, open_circuit_voltage_constant_coef: 12}}\nfoo: 1\n")
	p := gateway(t, "check", "--config", file)
	if code := p.exit(t, 10*time.Second); code != exitBadUse {
		t.Errorf("exit status %d, want %d", code, exitBadUse)
	}
	for _, want := range []string{file + ":1: ", file + ":5: ", file + ":6: ", "gouge", "capacity", "foo"} {
		if !strings.Contains(p.output(), want) {
			t.Errorf("no %q in\n%s", want, p.output())
		}
	}
	for _, example := range []string{"demo", "robot", "bench"} {
		p := gateway(t, "check", "--config", "../../configs/"+example+".yaml")
		if code := p.exit(t, 10*time.Second); code != 0 {
			t.Errorf("configs/%s.yaml: exit status %d\n%s", example, code, p.output())
		}
	}
}

func TestBadUseExitsWithTwo(t *testing.T) {
	for _, args := range [][]string{{"fly"}, {"run"}, {"run", "--config", "/nonexistent.yaml"}, {"demo", "--speed", "0"}, {"demo", "--wings"}} {
		p := gateway(t, args...)
		if code := p.exit(t, 10*time.Second); code != exitBadUse {
			t.Errorf("%v: exit status %d, want %d\n%s", args, code, exitBadUse, p.output())
		}
	}
}
