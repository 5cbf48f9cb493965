package bms

// Status says where the current goes. Its values are those of ROS sensor_msgs/BatteryState and
// gz.msgs.BatteryState. HORUS numbers differ: see mqtt/wire.
type Status uint8

const (
	StatusUnknown Status = iota
	Charging
	Discharging
	NotCharging
	Full
)

var statusNames = [...]string{"unknown", "charging", "discharging", "not_charging", "full"}

// StatusNames lists the names of all statuses, by value.
func StatusNames() []string { return statusNames[:] }

func (s Status) String() string { return name(statusNames[:], int(s)) }

// Health is the pack's condition, as ROS sensor_msgs/BatteryState numbers it.
type Health uint8

const (
	HealthUnknown Health = iota
	Good
	Overheat
	Dead
	Overvoltage
	UnspecFailure
	Cold
	WatchdogTimerExpire
	SafetyTimerExpire
)

var healthNames = [...]string{
	"unknown", "good", "overheat", "dead", "overvoltage", "unspec_failure", "cold",
	"watchdog_timer_expire", "safety_timer_expire",
}

func (h Health) String() string { return name(healthNames[:], int(h)) }

// Technology is the pack's chemistry, as ROS sensor_msgs/BatteryState numbers it.
type Technology uint8

const (
	TechnologyUnknown Technology = iota
	NiMH
	LiIon
	LiPo
	LiFe
	NiCd
	LiMn
	Ternary
	VRLA
)

var technologyNames = [...]string{
	"unknown", "nimh", "lion", "lipo", "life", "nicd", "limn", "ternary", "vrla",
}

// TechnologyNames lists the names of all chemistries, by value.
func TechnologyNames() []string { return technologyNames[:] }

func (t Technology) String() string { return name(technologyNames[:], int(t)) }

// Quality says how far a State can be trusted.
type Quality uint8

const (
	Invalid   Quality = iota // nothing is known yet
	Measured                 // the pack told it recently
	Estimated                // the pack is silent; the model carries on
	Stale                    // silent for longer than stale_after: measured values are unknown
)

var qualityNames = [...]string{"invalid", "good", "estimated", "stale"}

func (q Quality) String() string { return name(qualityNames[:], int(q)) }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return names[0]
}

// Faults is a set of what a pack's own protection reports.
type Faults uint32

const (
	CellOvervoltage Faults = 1 << iota
	CellUndervoltage
	PackOvervoltage
	PackUndervoltage
	ChargeOvercurrent
	DischargeOvercurrent
	ShortCircuit
	Overtemperature
	Undertemperature
	CellImbalance
	ChargeTimeout
	HostWatchdog
	PermanentFailure
	InternalFault
)

var faultNames = [...]string{
	"cell_overvoltage", "cell_undervoltage", "pack_overvoltage", "pack_undervoltage",
	"charge_overcurrent", "discharge_overcurrent", "short_circuit", "overtemperature",
	"undertemperature", "cell_imbalance", "charge_timeout", "host_watchdog", "permanent_failure",
	"internal_fault",
}

// FaultNames lists the name of every fault, the lowest bit first.
func FaultNames() []string { return faultNames[:] }

// Names lists the names of the faults in f.
func (f Faults) Names() []string {
	var set []string
	for i, n := range faultNames {
		if f&(1<<i) != 0 {
			set = append(set, n)
		}
	}
	return set
}
