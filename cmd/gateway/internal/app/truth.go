package app

import (
	"encoding/json"
	"net/http"

	"hilgate/drivers/sim"
	"hilgate/model/unit"
)

// truth is the state of a simulated world as physics has it, which no driver sees. Units are SI, charge is
// in ampere-hours, currents are negative while a pack discharges.
type truth struct {
	Seconds float64      `json:"seconds"` // since the world began
	Packs   []truePack   `json:"packs"`
	Joints  []trueJoint  `json:"joints"`
	Devices []trueDevice `json:"devices"`
	Buses   []trueBus    `json:"buses"`
}

type truePack struct {
	Name        string       `json:"name"`
	Charge      float64      `json:"charge"`
	Capacity    float64      `json:"capacity"`
	SoC         float64      `json:"soc"`
	Voltage     float64      `json:"voltage"`
	Current     float64      `json:"current"`
	Temperature float64      `json:"temperature"`
	Cells       []unit.Volts `json:"cells"`
	Charging    bool         `json:"charging"`
	Protected   bool         `json:"protected"` // the discharge switch is open
	BrownedOut  bool         `json:"browned_out"`
}

type trueJoint struct {
	Name        string  `json:"name"`
	Position    float64 `json:"position"`
	Velocity    float64 `json:"velocity"`
	Output      float64 `json:"output"` // V on the winding, 0 if it is open
	Driven      bool    `json:"driven"`
	Current     float64 `json:"current"`
	Power       float64 `json:"power"`
	Temperature float64 `json:"temperature"`
	Supply      float64 `json:"supply"`
}

// trueDevice is what a simulator tells of its own insides.
type trueDevice struct {
	Name   string `json:"name"`
	Driver string `json:"driver"`
	State  any    `json:"state"`
}

type trueBus struct {
	Name     string          `json:"name"`
	Address  string          `json:"address"`
	Faults   sim.Faults      `json:"faults"`
	Injected sim.FaultCounts `json:"injected"`
}

// truth reads the whole world at one moment.
func (w *world) truth() truth {
	var t truth
	w.bench.Do(func() {
		t.Seconds = w.plants.Now().Seconds()
		for name, p := range sorted(w.packs) {
			cells := make([]unit.Volts, p.CellCount())
			for i := range cells {
				cells[i] = p.Cell(i)
			}
			t.Packs = append(t.Packs, truePack{
				Name: name, Charge: float64(p.Charge()), Capacity: float64(p.Capacity()), SoC: float64(p.SoC()),
				Voltage: float64(p.Voltage()), Current: float64(p.Current()), Temperature: float64(p.Temperature()),
				Cells: cells, Charging: p.Charging(), Protected: p.Protected(), BrownedOut: p.Browned(),
			})
		}
		for name, j := range sorted(w.joints) {
			v, driven := j.Driven()
			if !driven {
				v = 0
			}
			t.Joints = append(t.Joints, trueJoint{
				Name: name, Position: float64(j.Position()), Velocity: float64(j.Velocity()), Output: float64(v),
				Driven: driven, Current: float64(j.Current()), Power: float64(j.Power()),
				Temperature: float64(j.Temperature()), Supply: float64(j.Supply()),
			})
		}
		for _, d := range w.devices {
			t.Devices = append(t.Devices, trueDevice{d.name, d.driver, d.tell()})
		}
	})
	for _, b := range w.buses {
		t.Buses = append(t.Buses, trueBus{b.config.Name, b.config.Device, b.injector.Faults(), b.injector.Counts()})
	}
	return t
}

// truthHandler serves the bench to those who test against it:
//
//	GET /truth          the true state, as JSON
//	PUT /faults/{bus}   puts faults on a bus; the body is JSON with the keys of the configuration's faults
//	PUT /plugged/{bus}  pulls a serial port out (false) or puts it back in (true)
func (w *world) truthHandler(ports map[string]*sim.PTY) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /truth", func(rw http.ResponseWriter, _ *http.Request) {
		text, err := json.MarshalIndent(w.truth(), "", " ")
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(text) // a reader that went away is no fault of ours
	})
	mux.HandleFunc("PUT /faults/{bus}", func(rw http.ResponseWriter, r *http.Request) {
		b := w.find(r.PathValue("bus"))
		if b == nil {
			http.Error(rw, "no simulated bus is named "+r.PathValue("bus"), http.StatusNotFound)
			return
		}
		var f sim.Faults
		d := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 64<<10))
		d.DisallowUnknownFields()
		err := d.Decode(&f)
		if err == nil {
			err = f.Check()
		}
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		b.injector.Set(f)
		rw.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("PUT /plugged/{bus}", func(rw http.ResponseWriter, r *http.Request) {
		port := ports[r.PathValue("bus")]
		if port == nil {
			http.Error(rw, "no simulated serial port is named "+r.PathValue("bus"), http.StatusNotFound)
			return
		}
		var in bool
		if err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 16)).Decode(&in); err != nil {
			http.Error(rw, "want true or false: "+err.Error(), http.StatusBadRequest)
			return
		}
		plug := port.Unplug
		if in {
			plug = port.Replug
		}
		if err := plug(); err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		rw.WriteHeader(http.StatusNoContent)
	})
	return mux
}
