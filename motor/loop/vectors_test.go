package loop

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilgate/model/unit"
	"hilgate/motor"
	"hilgate/motor/trajectory"
)

// TestVectorsTrajectory steps the controller through what Gazebo's own code went through and wants its
// targets, forces and progress to the last bit.
func TestVectorsTrajectory(t *testing.T) {
	files := find(t, "testdata/trajectory/*.json")
	if dir := os.Getenv("HIL_VECTORS"); dir != "" {
		folder := filepath.Join(dir, "gazebo", "trajectory")
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			t.Logf("%s: no such family there", folder)
		} else {
			files = append(files, find(t, filepath.Join(folder, "*.json"))...)
		}
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) { runVector(t, file) })
	}
	t.Logf("vectors gazebo/trajectory: %d cases, 0 unsupported ()", len(files))
}

func find(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no vectors (%v)", pattern, err)
	}
	return files
}

type vector struct {
	Format, Name, What, Provenance, Expected string

	Params   [][2]string
	Joints   []struct{ Name, Type string }
	Timeline []struct {
		Op   string
		N    int
		DtNs int64 `json:"dt_ns"`
		Msg  *struct {
			JointNames    []string `json:"joint_names"`
			HeaderStampNs int64    `json:"header_stamp_ns"`
			Points        []struct {
				Positions, Velocities, Accelerations, Effort numbers

				TimeFromStartNs int64 `json:"time_from_start_ns"`
			}
		}
	}
}

// numbers are JSON numbers, of which those that JSON lacks may stand in quotes.
type numbers []float64

func (n *numbers) UnmarshalJSON(src []byte) error {
	var cells []json.RawMessage
	if err := json.Unmarshal(src, &cells); err != nil {
		return err
	}
	*n = nil
	for _, c := range cells {
		v, err := strconv.ParseFloat(strings.Trim(string(c), `"`), 64)
		if err != nil {
			return err
		}
		*n = append(*n, v)
	}
	return nil
}

// nonFinite finds strings, to be left alone, and the numbers that JSON lacks but some of its writers have.
var nonFinite = regexp.MustCompile(`(?i)"(?:[^"\\]|\\.)*"|-?\b(?:nan|inf|infinity)\b`)

// quoted puts such numbers into quotes.
func quoted(text []byte) []byte {
	return nonFinite.ReplaceAllFunc(text, func(m []byte) []byte {
		if m[0] == '"' {
			return m
		}
		return strconv.AppendQuote(nil, string(m))
	})
}

func runVector(t *testing.T, file string) {
	var v vector
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(quoted(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	r := newReplay(t, &v, filepath.Join(filepath.Dir(file), v.Expected))
	for _, op := range v.Timeline {
		switch op.Op {
		case "step":
			for range op.N {
				r.step(t)
			}
		case "pause", "resume": // each row says whether it was paused
		case "trajectory":
			m := trajectory.Message{JointNames: op.Msg.JointNames}
			for _, p := range op.Msg.Points {
				m.Points = append(m.Points, trajectory.Point{
					Positions: p.Positions, Velocities: p.Velocities, Accelerations: p.Accelerations,
					Effort: p.Effort, FromStart: time.Duration(p.TimeFromStartNs),
				})
			}
			if len(m.JointNames) == 0 || len(r.joints) == 0 {
				continue // Gazebo ignores it
			}
			traj, err := trajectory.New(m, nil, trajectory.Options{Gazebo: true})
			if err != nil {
				t.Fatal(err)
			}
			r.c.Tracker().Begin(traj, traj.Columns(r.joints))
		default:
			t.Fatalf("unknown operation %q", op.Op)
		}
	}
	if len(r.rows) > 0 {
		t.Errorf("%d rows are left after the timeline", len(r.rows))
	}
}

// replay is a controller on its way through the rows of a CSV.
type replay struct {
	c      *Controller
	joints []string
	fb     []motor.Feedback
	header []string
	rows   [][]string
}

func newReplay(t *testing.T, v *vector, file string) *replay {
	t.Helper()
	var elements []Element
	for _, p := range v.Params {
		name, text := p[0], p[1]
		if _, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err != nil && (name == "initial_position" ||
			strings.HasPrefix(name, "position_") || strings.HasPrefix(name, "velocity_")) {
			text = "0" // Gazebo reads on after an error in its log; FromSDF tells of it
		}
		elements = append(elements, Element{name, text})
	}
	var model []ModelJoint
	for _, j := range v.Joints {
		model = append(model, ModelJoint(j))
	}
	joints, axes, err := FromSDF(elements, model)
	if err != nil {
		t.Fatal(err)
	}
	for i := range axes { // these vectors ran on gz-math 6.10
		axes[i].Position.KeepOverflow, axes[i].Velocity.KeepOverflow = true, true
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %d rows (%v)", file, len(rows), err)
	}
	return &replay{
		c: NewController(axes, true), joints: joints, fb: make([]motor.Feedback, len(joints)),
		header: rows[0], rows: rows[1:],
	}
}

func (r *replay) step(t *testing.T) {
	t.Helper()
	if len(r.rows) == 0 {
		t.Fatal("the timeline has more steps than there are rows")
	}
	row := map[string]string{}
	for i, name := range r.header {
		row[name] = r.rows[0][i]
	}
	r.rows = r.rows[1:]
	number := func(column string) float64 { // an empty cell is NaN
		text, known := row[column]
		if !known {
			t.Fatalf("no column %q", column)
		}
		if text == "" {
			return math.NaN()
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil && n == 0 { // beyond the range, ParseFloat gives infinity and an error
			t.Fatal(err)
		}
		return n
	}
	for i, name := range r.joints {
		r.fb[i] = motor.Feedback{
			Position: unit.Position(number(name + ".pos")), Velocity: unit.Velocity(number(name + ".vel")),
		}
	}
	for column, text := range row {
		name, output, _ := strings.Cut(column, ".")
		input := output == "" || output == "pos" || output == "vel"
		if !input && text != "" && !slices.Contains(r.joints, name) {
			t.Fatalf("step %s: joint %s is controlled in Gazebo", row["step"], name)
		}
	}
	at, dt := time.Duration(number("sim_time_ns")), time.Duration(number("dt_ns"))
	progress := math.NaN()
	paused := row["paused"] == "1"
	switch {
	case !paused:
		if r.c.Step(at, dt, r.fb) {
			progress = float64(r.c.Tracker().Progress())
		}
	case dt < 0:
		r.c.Tracker().Drop()
		for i := range r.joints {
			r.c.Rest(i, 0)
		}
	}
	same := func(column string, got float64) {
		t.Helper()
		if want := number(column); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("step %s: %s is %v, want %v", row["step"], column, got, want)
		}
	}
	if got := r.c.Tracker().Status().String(); got != row["status"] {
		t.Errorf("step %s: status is %s, want %s", row["step"], got, row["status"])
	}
	same("point_index", float64(r.c.Tracker().Index()))
	if want := number("progress"); float32(progress) != float32(want) && !(math.IsNaN(progress) && math.IsNaN(want)) {
		t.Errorf("step %s: progress is %v, want %v", row["step"], progress, want)
	}
	for i, name := range r.joints {
		target := r.c.Target(i)
		same(name+".target_pos", float64(target.Position))
		same(name+".target_vel", float64(target.Velocity))
		same(name+".target_effort", float64(target.Effort))
		if !paused {
			same(name+".force", float64(r.c.Wanted(i, motor.ModeEffort).Effort))
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}
