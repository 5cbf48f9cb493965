package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hilgate/bms"
	"hilgate/model"
	"hilgate/model/permit"
	"hilgate/motor"
)

func snapshot() *model.Snapshot {
	r := bms.Unmeasured()
	r.Voltage, r.Current = 15.1, -2.5
	joint := motor.JointState{Name: "left", JointSample: motor.JointSample{Feedback: motor.Unmeasured()}}
	joint.Feedback.Position = 1.5
	joint.Withheld = permit.EStop | permit.BatteryEmpty
	return &model.Snapshot{
		Robot: "rover <1>", Seq: 7, At: time.Unix(1700000000, 0).UTC(),
		Packs:  []bms.State{{Name: "main", Driver: "sbs", Quality: bms.Measured, Reading: r, Status: bms.Discharging}},
		Groups: []motor.State{{Name: "base", Joints: []motor.JointState{joint}}},
	}
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func handler(ready []string, healthy error) http.Handler {
	return Handler(Config{
		Version: "v1", Latest: snapshot, Metrics: http.NotFoundHandler(),
		Ready: func() []string { return ready }, Healthy: func() error { return healthy },
	})
}

func TestStateHasNullForWhatIsNotMeasured(t *testing.T) {
	code, body := get(t, handler(nil, nil), "/api/state")
	if code != http.StatusOK || !json.Valid([]byte(body)) {
		t.Fatalf("%d %s", code, body)
	}
	for _, want := range []string{
		`"voltage_volts":15.1`, `"temperature_celsius":null`, `"cell_volts":[]`, `"last_reading":null`,
		`"withheld":["estop","battery_empty"]`, `"position":1.5`, `"quality":"good"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("state lacks %s:\n%s", want, body)
		}
	}
}

func TestReadyNamesWhatIsMissing(t *testing.T) {
	code, body := get(t, handler([]string{"battery main has not answered"}, nil), "/-/ready")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "battery main") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get(t, handler(nil, nil), "/-/ready"); code != http.StatusOK {
		t.Errorf("ready: %d", code)
	}
}

func TestHealthyTellsWhatAilsIt(t *testing.T) {
	code, body := get(t, handler(nil, errors.New("store is stuck")), "/-/healthy")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "store is stuck") {
		t.Errorf("%d %s", code, body)
	}
}

func TestLandingPageEscapesTheRobotsName(t *testing.T) {
	if _, body := get(t, handler(nil, nil), "/"); !strings.Contains(body, "rover &lt;1&gt;") {
		t.Errorf("page does not escape: %s", body)
	}
}

func TestOnlyGetIsAnswered(t *testing.T) {
	w := httptest.NewRecorder()
	handler(nil, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/state", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /api/state: %d", w.Code)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln, handler(nil, nil)) }()
	resp, err := http.Get("http://" + ln.Addr().String() + "/-/ready")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "ready\n" {
		t.Errorf("body %q", body)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("Serve did not return")
	}
}

// pipe is a listener with one connection, in memory, so that it works in a bubble of virtual time.
type pipe struct {
	net.Listener // nil: only what follows is used
	conns        chan net.Conn
}

func (p pipe) Accept() (net.Conn, error) {
	if conn, open := <-p.conns; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipe) Close() error {
	close(p.conns)
	return nil
}

func (pipe) Addr() net.Addr { return &net.TCPAddr{} }

func TestAClientThatAsksNothingDoesNotHoldTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, conn := net.Pipe()
		defer client.Close()
		p := pipe{conns: make(chan net.Conn, 1)}
		p.conns <- conn
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, p, handler(nil, nil)) }()
		synctest.Wait()
		begin := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > farewell {
			t.Errorf("took %v", took)
		}
	})
}
