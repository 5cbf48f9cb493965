//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The figures of the whole binary, as benchmarks: `make bench` prints their medians.

// demoFile is the demo's robot against a broker of another process, its pages on a free port.
func demoFile(t testing.TB, broker int, edit ...string) string {
	t.Helper()
	src, err := os.ReadFile("../../configs/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(append(edit,
		`embedded: {listen: "127.0.0.1:1883"}`, fmt.Sprintf(`broker: "tcp://127.0.0.1:%d"`, broker),
		"127.0.0.1:9743", "127.0.0.1:0",
	)...).Replace(string(src))
	file := filepath.Join(t.TempDir(), "demo.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

const packState = "model/rover/battery/main/state"

// BenchmarkExecToFirstBatteryState is from the start of the binary to the first measured BatteryState that a
// subscriber of mosquitto receives.
func BenchmarkExecToFirstBatteryState(b *testing.B) {
	port, _ := mosquitto(b)
	file := demoFile(b, port)
	if _, err := binary(); err != nil { // built before the clock runs
		b.Fatal(err)
	}
	sub := subscribe(b, port, packState)
	for b.Loop() {
		b.StopTimer()
		publish(b, port, packState, "", "-r") // nothing retained from the run before
		seen := len(sub.on(packState))
		b.StartTimer()
		p := gateway(b, "run", "--config", file)
		eventually(b, 10*time.Second, "a measured state", func() bool {
			all := sub.on(packState)
			return slices.ContainsFunc(all[seen:], func(s string) bool { return parse(s).at("voltage").known() })
		})
		b.StopTimer()
		p.Process.Kill()
		<-p.done
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/start")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSampleToSubscriber is from the instant of a poll, as the message has it, to its arrival at a
// subscriber of mosquitto: p50 and p99. The simulated bus takes no time, so that the poll does not count.
func BenchmarkSampleToSubscriber(b *testing.B) {
	port, _ := mosquitto(b)
	gateway(b, "run", "--config", demoFile(b, port, "pec: auto", "pec: auto, gap: 0s"))
	sub := subscribe(b, port, packState)
	var took []float64
	for b.Loop() {
		seen := len(sub.arrived(packState))
		eventually(b, time.Minute, "states", func() bool { return len(sub.arrived(packState)) >= seen+100 })
		for _, m := range sub.arrived(packState)[seen:] {
			stamp, _ := parse(m.text).at("timestamp_ns").v.(float64)
			took = append(took, float64(m.at.UnixNano())-stamp)
		}
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2]/1e6, "ms-p50")
	b.ReportMetric(took[len(took)*99/100]/1e6, "ms-p99")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDemoAfterAMinute is the resident memory of the demo after 60 s, and the size of the stripped binary.
func BenchmarkDemoAfterAMinute(b *testing.B) {
	for b.Loop() {
		d := startDemo(b, "--quiet")
		begin := time.Now()
		eventually(b, 2*time.Minute, "a minute has passed", func() bool {
			time.Sleep(time.Second)
			return time.Since(begin) > time.Minute
		})
		b.ReportMetric(resident(b, d.Process.Pid), "MB-resident")
	}
	path, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/1e6, "MB-binary")
	b.ReportMetric(0, "ns/op")
}

// resident is the memory of a process that is in RAM, MB.
func resident(b *testing.B, pid int) float64 {
	out, err := exec.Command("ps", "-o", "rss=", "-p", fmt.Sprint(pid)).Output()
	if err != nil {
		b.Skip("no ps here")
	}
	kib, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib * 1024 / 1e6
}

// BenchmarkScrapeOfTheDemo is one GET of /metrics over loopback.
func BenchmarkScrapeOfTheDemo(b *testing.B) {
	d := startDemo(b, "--quiet")
	eventually(b, 15*time.Second, "ready", func() bool {
		code, _ := fetch(b, d.http+"/-/ready")
		return code == 200
	})
	for b.Loop() {
		if code, _ := fetch(b, d.http+"/metrics"); code != 200 {
			b.Fatal(code)
		}
	}
}
