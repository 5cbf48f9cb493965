package metrics

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilgate/bms"
	"hilgate/model/link"
	"hilgate/model/permit"
	"hilgate/motor"
)

// A label value that came over a wire or a network would let anyone make series without end.
func TestLabelValuesComeFromClosedLists(t *testing.T) {
	kinds := make([]string, 0, 16)
	for _, k := range link.Kinds() {
		kinds = append(kinds, k.String())
	}
	numbers := make([]string, 0, bms.MaxCells)
	for i := range bms.MaxCells {
		numbers = append(numbers, strconv.Itoa(i))
	}
	rejects := []string{"range", "jump", "cell_sum"}
	mqtt := mqttAfter(1)
	list := func(counts []Count) (all []string) {
		for _, c := range counts {
			all = append(all, c.Name)
		}
		return all
	}
	closed := map[string][]string{
		// of the configuration
		"battery": {"main", "aux"}, "motor": {"base", "arm"}, "loop": {"base", "arm"}, "bus": {"gauge", "drive", "arm"},
		"joint":  {"left", "right", "lift", "shoulder", "elbow", "wrist"},
		"device": {"/dev/i2c-1", "/dev/ttyACM0", "/dev/ttyUSB0"},
		// closed lists
		"source":  {"gauge", "coulomb", "filter", "unknown", "measured", "estimated", "commanded"},
		"quality": qualityNames(), "status": bms.StatusNames(), "fault": append(bms.FaultNames(), motor.FaultNames()...),
		"direction": {"charge", "discharge"}, "cell": numbers, "sensor": append(numbers, packSensor),
		"limit": motor.LimitNames(), "kind": kinds, "stage": stageNames[:], "feature": featureNames,
		"reason": slices.Concat(permit.Names(), rejects, list(mqtt.Rejected)), "state": safetyNames, "mode": modeNames,
		"class": list(mqtt.Published), "method": list(mqtt.Commands),
		"cause": {"gathering", "encoding"}, // promhttp's
	}
	r := newRobot(time.Now())
	m := New(r.config)
	r.work(m)
	m.Handler() // adds its own counter
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasSuffix(f.GetName(), "_info") {
			continue
		}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if !slices.Contains(closed[l.GetName()], l.GetValue()) {
					t.Errorf("%s{%s=%q}", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
}
