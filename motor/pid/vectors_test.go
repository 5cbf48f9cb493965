package pid

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestVectorsPID runs operations that Gazebo's own code ran and wants its results to the last bit.
func TestVectorsPID(t *testing.T) {
	files := find(t, "testdata/pid/*.json")
	if dir := os.Getenv("HIL_VECTORS"); dir != "" {
		folder := filepath.Join(dir, "gazebo", "pid")
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			t.Logf("%s: no such family there", folder)
		} else {
			files = append(files, find(t, filepath.Join(folder, "*.json"))...)
		}
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) { runVector(t, file) })
	}
	t.Logf("vectors gazebo/pid: %d cases, 0 unsupported ()", len(files))
}

func find(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no vectors (%v)", pattern, err)
	}
	return files
}

// nonFinite finds strings, to be left alone, and the numbers that JSON lacks but some of its writers have.
var nonFinite = regexp.MustCompile(`(?i)"(?:[^"\\]|\\.)*"|-?\b(?:nan|inf|infinity)\b`)

// quoted puts such numbers into quotes.
func quoted(text []byte) []byte {
	return nonFinite.ReplaceAllFunc(text, func(m []byte) []byte {
		if m[0] == '"' {
			return m
		}
		return fmt.Appendf(nil, "%q", m)
	})
}

// gains are the names of the constructor's values and, with "set_" in front, of the operations.
func gains(c *Config) map[string]*float64 {
	return map[string]*float64{
		"p_gain": &c.PGain, "i_gain": &c.IGain, "d_gain": &c.DGain, "i_min": &c.IMin, "i_max": &c.IMax,
		"cmd_min": &c.CmdMin, "cmd_max": &c.CmdMax, "cmd_offset": &c.CmdOffset,
	}
}

func runVector(t *testing.T, file string) {
	var v struct {
		Format, Name, What, Provenance, Expected string

		Config map[string]any
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(quoted(text)))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	c := Default()
	set := gains(&c)
	for name, value := range v.Config {
		field, known := set[name]
		if !known {
			t.Fatalf("config has an unknown key %q", name)
		}
		*field = parse(t, fmt.Sprint(value))
	}
	f, err := os.Open(filepath.Join(filepath.Dir(file), v.Expected))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 2 {
		t.Fatalf("%s has no rows", v.Expected)
	}
	var s State
	for _, cells := range rows[1:] {
		row := map[string]string{}
		for i, name := range rows[0] {
			row[name] = cells[i]
		}
		got := math.NaN()
		switch op := row["op"]; op {
		case "update":
			got = c.Step(&s, parse(t, row["error"]), duration(t, row["dt_ns"]))
		case "update_rate":
			got = c.StepRate(&s, parse(t, row["error"]), parse(t, row["error_rate"]), duration(t, row["dt_ns"]))
		case "reset":
			s = State{}
		case "set_cmd":
			s.Command = parse(t, row["arg"])
		default:
			field, known := set[strings.TrimPrefix(op, "set_")]
			if !known || !strings.HasPrefix(op, "set_") {
				t.Fatalf("step %s has an unknown operation %q", row["step"], op)
			}
			*field = parse(t, row["arg"])
		}
		if row["returned"] != "" {
			same(t, row, "returned", got)
		}
		same(t, row, "cmd", s.Command)
		same(t, row, "p_err", s.Error)
		same(t, row, "i_err", s.Integral)
		same(t, row, "d_err", s.Derivative)
		if t.Failed() {
			t.FailNow()
		}
	}
}

func same(t *testing.T, row map[string]string, column string, got float64) {
	t.Helper()
	if want := parse(t, row[column]); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
		t.Errorf("step %s, %s: %s is %v, want %v", row["step"], row["op"], column, got, want)
	}
}

func parse(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && v == 0 { // beyond the range, ParseFloat gives infinity and an error
		t.Fatal(err)
	}
	return v
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	ns, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ns)
}
