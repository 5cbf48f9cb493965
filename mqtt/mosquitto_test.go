//go:build unix

package mqtt

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hilgate/mqtt/wire"
)

// program finds a program, or skips the test; where all tests must run it fails it.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + name); err == nil { // not in everyone's PATH
			return path
		}
		if os.Getenv("HIL_TEST_ALL") == "1" {
			t.Fatalf("%s is not installed", name)
		}
		t.Skipf("%s is not installed", name)
	}
	return path
}

// startMosquitto runs the reference broker on a loopback port; 0 picks a free one. stop ends it.
func startMosquitto(t *testing.T, port int) (address string, stop func()) {
	t.Helper()
	path := program(t, "mosquitto")
	for range 5 { // a free port may be taken by another before mosquitto has it
		at := port
		if at == 0 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			at = l.Addr().(*net.TCPAddr).Port
			l.Close()
		}
		conf := filepath.Join(t.TempDir(), "mosquitto.conf")
		text := fmt.Sprintf("listener %d 127.0.0.1\nallow_anonymous true\npersistence false\n", at)
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var out safeBuffer
		cmd := exec.Command(path, "-c", conf)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		stop = func() {
			cmd.Process.Kill()
			<-ended
		}
		t.Cleanup(stop)
		address = fmt.Sprintf("127.0.0.1:%d", at)
		up := false
		for end := time.Now().Add(patience); !up && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			select {
			case <-ended:
				end = time.Time{}
			default:
			}
			if conn, err := net.Dial("tcp", address); err == nil {
				conn.Close()
				up = true
			}
		}
		if up {
			return address, stop
		}
		stop()
		t.Logf("mosquitto does not start: %s", out.String())
	}
	t.Fatal("mosquitto does not start")
	return "", nil
}

// foreign runs one of mosquitto's own clients against a broker and returns what it printed.
func foreign(t *testing.T, name, address string, args ...string) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(address)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, name), append([]string{"-h", host, "-p", port}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %.200q: %v: %s", name, args, err, out)
	}
	return string(out)
}

func TestMosquittoHasEverythingRetained(t *testing.T) {
	address, _ := startMosquitto(t, 0)
	r := newRobot()
	_, stop := startClient(t, address, r, nil)
	l := listen(t, address, root+"gateway/availability")
	l.until(t, root+"gateway/availability", "online")
	// %r is 1 for a retained message.
	out := foreign(t, "mosquitto_sub", address, "-t", "model/#", "-C", "12", "-F", "%t %r %p")
	for _, want := range []string{
		"battery/main/state 1 {\"voltage\":15.2,", "battery/main/estimate 1 ", "battery/main/availability 1 online",
		"battery/main/consumer/lidar_1/power_load 1 {\"data\":8,", "joint_state 1 ", "joint/left/availability 1 online",
		"joint/right/availability 1 online", "joint/left/fault 1 ", "joint/right/fault 1 ", "safety/state 1 ",
		"gateway/availability 1 online", "gateway/info 1 ",
	} {
		if !strings.Contains(out, root+want) {
			t.Errorf("%q is not among\n%s", want, out)
		}
	}
	stop()
	if out := foreign(t, "mosquitto_sub", address, "-t", root+"gateway/availability", "-C", "1", "-F", "%r %p"); out != "1 offline\n" {
		t.Errorf("after the end availability is %q", out)
	}
}

func TestMosquittoTakesCommandsOfItsClients(t *testing.T) {
	address, _ := startMosquitto(t, 0)
	r := newRobot()
	foreign(t, "mosquitto_pub", address, "-q", "1", "-r", "-t", root+"battery/main/recharge/start", "-m", "true")
	foreign(t, "mosquitto_pub", address, "-q", "1", "-r", "-t", root+"estop/release", "-m", `{"confirm":"1"}`)
	foreign(t, "mosquitto_pub", address, "-q", "1", "-r", "-t", root+"estop/engage", "-m", `{"reason":"left behind"}`)
	c, _ := startClient(t, address, r, nil)
	eventually(t, "retained ones judged", func() bool {
		s := c.Stats()
		return s.Rejected[wire.MethodRechargeStart][wire.RejectRetained] == 1 &&
			s.Rejected[wire.MethodEStopRelease][wire.RejectRetained] == 1 && s.Commands[wire.MethodEStopEngage] == 1
	})
	foreign(t, "mosquitto_pub", address, "-q", "1", "-t", root+"battery/main/recharge/start", "-n")
	foreign(t, "mosquitto_pub", address, "-q", "2", "-t", root+"battery/main/drain/stop", "-m", "1")
	foreign(t, "mosquitto_pub", address, "-V", "mqttv5", "-q", "1", "-t", root+"joint_trajectory", "-m",
		`{"joint_names":["left"],"points":[{"positions":[1],"time_from_start":"1s"}]}`)
	want := []string{"estop mqtt left behind", "recharge main true", "drain main false", "follow [left] 1"}
	eventually(t, "commands", func() bool { return len(r.called()) == len(want) })
	if calls := r.called(); !slices.Equal(calls, want) {
		t.Errorf("calls are %q, want %q", calls, want)
	}
}

func TestClientReturnsAfterMosquitto(t *testing.T) {
	address, stop := startMosquitto(t, 0)
	r := newRobot()
	c, _ := startClient(t, address, r, nil)
	eventually(t, "connected", func() bool { return c.Stats().Connected })
	stop()
	eventually(t, "lost", func() bool { return !c.Stats().Connected })
	_, port, _ := net.SplitHostPort(address)
	var n int
	fmt.Sscan(port, &n)
	startMosquitto(t, n)
	l := listen(t, address, "#")
	l.until(t, root+"gateway/availability", "online")
	l.until(t, root+"battery/main/state", `"voltage":15.2`)
	l.say(t, root+"battery/main/drain/start", "")
	eventually(t, "commanded", func() bool { return slices.Contains(r.called(), "drain main true") })
}

// TestMain lets the test program be a gateway that can be killed.
func TestMain(m *testing.M) {
	if address := os.Getenv("MQTT_TEST_GATEWAY"); address != "" {
		r := newRobot()
		c, err := New(Config{Broker: "tcp://" + address, Robot: "rover", Latest: r.latest, Changed: r.onChange}, r, slog.Default())
		if err != nil {
			panic(err)
		}
		c.Run(context.Background())
	}
	os.Exit(m.Run())
}

func TestKilledGatewayIsOffline(t *testing.T) {
	address, _ := startMosquitto(t, 0)
	l := listen(t, address, root+"gateway/#")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MQTT_TEST_GATEWAY="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.until(t, root+"gateway/availability", "online")
	cmd.Process.Kill()
	cmd.Wait()
	if h := l.until(t, root+"gateway/availability", "offline"); h.qos != 1 {
		t.Errorf("the will has QoS %d, want 1", h.qos)
	}
	if out := foreign(t, "mosquitto_sub", address, "-t", root+"gateway/availability", "-C", "1", "-F", "%r %p"); out != "1 offline\n" {
		t.Errorf("the will is kept as %q, want it retained", out)
	}
}

func TestStoppedGatewayThatHangsIsOffline(t *testing.T) {
	if os.Getenv("HIL_TEST_ALL") != "1" {
		t.Skip("takes one and a half keepalives: set HIL_TEST_ALL=1")
	}
	address, _ := startMosquitto(t, 0)
	l := listen(t, address, root+"gateway/#")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MQTT_TEST_GATEWAY="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	l.until(t, root+"gateway/availability", "online")
	cmd.Process.Signal(syscall.SIGSTOP) // the connection stands, nobody is behind it
	for end := time.Now().Add(2 * DefaultKeepAlive); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if all := l.heardOn(root + "gateway/availability"); all[len(all)-1] == wire.Offline {
			return
		}
	}
	t.Error("a gateway that hangs is still online after two keepalives")
}

// brackets is an endless payload, and an endless nesting.
type brackets struct{}

func (brackets) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '['
	}
	return len(p), nil
}

func TestHugeAndDeepPayloadsDoNoHarm(t *testing.T) {
	address, _ := startMosquitto(t, 0)
	r := newRobot()
	c, _ := startClient(t, address, r, nil)
	l := listen(t, address, root+"rsp/#", root+"gateway/#", root+"joint_trajectory/result")
	l.until(t, root+"gateway/availability", "online")
	big := filepath.Join(t.TempDir(), "big")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(f, brackets{}, 100<<20); err != nil {
		t.Fatal(err)
	}
	f.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	foreign(t, "mosquitto_pub", address, "-q", "1", "-t", root+"joint_trajectory", "-f", big)
	l.until(t, root+"joint_trajectory/result", `"error":-1,"error_string":"too_large: over 65536 bytes"`)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("a payload of 100 MB made the client take %d bytes", used)
	}
	foreign(t, "mosquitto_pub", address, "-q", "1", "-t", root+"joint_trajectory", "-m", `{"points":`+strings.Repeat("[", 60_000))
	l.until(t, root+"joint_trajectory/result", "nested too deeply")
	l.say(t, root+"battery/main/drain/start", "")
	eventually(t, "commanded afterwards", func() bool { return slices.Contains(r.called(), "drain main true") })
	if s := c.Stats(); s.Losses != 0 || s.Rejected[wire.MethodTrajectory][wire.RejectTooLarge] != 1 {
		t.Errorf("%d losses, %d too large", s.Losses, s.Rejected[wire.MethodTrajectory][wire.RejectTooLarge])
	}
}

func TestLatencyFromSampleToSubscriberThroughMosquitto(t *testing.T) {
	address, _ := startMosquitto(t, 0)
	latency(t, address)
}
