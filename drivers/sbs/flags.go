package sbs

import "hilgate/bms"

// Status is BatteryStatus (SBS 1.1, 5.1.21): flags, and in bits 3..0 what became of the transaction before.
type Status uint16

const (
	FullyDischarged         Status = 1 << 4 // until the pack is at 20 % again
	FullyCharged            Status = 1 << 5
	DischargingOrResting    Status = 1 << 6 // clear while the pack is being charged
	Initialized             Status = 1 << 7 // clear: not calibrated, values may be far off
	RemainingTimeAlarm      Status = 1 << 8
	RemainingCapacityAlarm  Status = 1 << 9
	TerminateDischargeAlarm Status = 1 << 11
	OverTempAlarm           Status = 1 << 12
	TerminateChargeAlarm    Status = 1 << 14
	OverChargedAlarm        Status = 1 << 15

	reservedStatus Status = 1<<10 | 1<<13
)

var statusNames = []string{
	4: "FULLY_DISCHARGED", 5: "FULLY_CHARGED", 6: "DISCHARGING", 7: "INITIALIZED", 8: "REMAINING_TIME_ALARM",
	9: "REMAINING_CAPACITY_ALARM", 11: "TERMINATE_DISCHARGE_ALARM", 12: "OVER_TEMP_ALARM",
	14: "TERMINATE_CHARGE_ALARM", 15: "OVER_CHARGED_ALARM",
}

// Names lists the flags that are set, by SBS's names.
func (s Status) Names() []string { return names(uint32(s), statusNames) }

// Code is what became of the transaction before.
func (s Status) Code() ErrorCode { return ErrorCode(s & 15) }

// Plausible reports whether a word that came without a packet error code can be a BatteryStatus: no
// reserved bit, and not what a bus gives that is held low. (One that floats has the reserved bits set.)
func (s Status) Plausible() bool { return s != 0 && s&reservedStatus == 0 }

// ErrorCode is the device's verdict on a transaction. Reading BatteryStatus sets it back to OK.
type ErrorCode uint8

const (
	CodeOK ErrorCode = iota
	CodeBusy
	CodeReservedCommand
	CodeUnsupportedCommand
	CodeAccessDenied
	CodeOverflow
	CodeBadSize
	CodeUnknownError
)

var codeNames = [...]string{
	"OK", "BUSY", "RESERVED_COMMAND", "UNSUPPORTED_COMMAND", "ACCESS_DENIED", "OVERFLOW_UNDERFLOW", "BAD_SIZE",
	"UNKNOWN_ERROR",
}

func (c ErrorCode) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "RESERVED"
}

// Mode is BatteryMode (SBS 1.1, 5.1.4).
type Mode uint16

const (
	InternalChargeController Mode = 1 << 0
	PrimaryBatterySupport    Mode = 1 << 1
	ConditionFlag            Mode = 1 << 7 // a learning cycle is wanted
	ChargeControllerEnabled  Mode = 1 << 8
	PrimaryBattery           Mode = 1 << 9
	AlarmMode                Mode = 1 << 13 // no alarm broadcasts; the pack clears it after a minute
	ChargerMode              Mode = 1 << 14 // no broadcasts to a charger
	CapacityMode             Mode = 1 << 15 // capacities in 10 mWh instead of mAh
)

var modeNames = []string{
	0: "INTERNAL_CHARGE_CONTROLLER", 1: "PRIMARY_BATTERY_SUPPORT", 7: "CONDITION_FLAG",
	8: "CHARGE_CONTROLLER_ENABLED", 9: "PRIMARY_BATTERY", 13: "ALARM_MODE", 14: "CHARGER_MODE", 15: "CAPACITY_MODE",
}

// Names lists the flags that are set, by SBS's names.
func (m Mode) Names() []string { return names(uint32(m), modeNames) }

// Operation is TI's OperationStatus, sub-command 0x0054.
type Operation uint32

const (
	SafetyActive  Operation = 1 << 11 // at least one bit of Safety
	FailureActive Operation = 1 << 12 // at least one bit of Failure
)

var operationNames = []string{
	0: "PRES", 1: "DSG", 2: "CHG", 3: "PCHG", 5: "FUSE", 7: "BTP_INT", 10: "SDV", 11: "SS", 12: "PF", 13: "XDSG",
	14: "XCHG", 15: "SLEEP", 16: "SDM", 17: "LED", 18: "AUTH", 19: "AUTOCALM", 20: "CAL", 21: "CAL_OFFSET",
	22: "XL", 23: "SLEEPM", 24: "INIT", 26: "SLPAD", 27: "SLPCC", 28: "CB", 29: "EMSHUT",
}

// Names lists the flags that are set, by TI's names, without the security mode.
func (o Operation) Names() []string { return names(uint32(o), operationNames) }

// Security is bits 9 and 8.
func (o Operation) Security() Security { return Security(o >> 8 & 3) }

// Security is how much of a gauge is open to the host.
type Security uint8

const (
	FullAccess Security = 1
	Unsealed   Security = 2
	Sealed     Security = 3
)

func (s Security) String() string {
	return [...]string{"reserved", "full_access", "unsealed", "sealed"}[s&3]
}

// Safety is TI's SafetyStatus, sub-command 0x0051, or SafetyAlert, 0x0050.
type Safety uint32

const (
	CUV  Safety = 1 << iota // cell undervoltage
	COV                     // cell overvoltage
	OCC1                    // overcurrent in charge
	OCC2
	OCD1 // overcurrent in discharge
	OCD2
	AOLD // overload in discharge
	AOLDL
	ASCC // short circuit in charge
	ASCCL
	ASCD // short circuit in discharge
	ASCDL
	OTC  // overtemperature in charge
	OTD  // overtemperature in discharge
	CUVC // cell undervoltage, compensated by the current
	_
	OTF // overtemperature of the transistors
	HWD // host watchdog
	PTO // precharge time-out
	_
	CTO // charge time-out
	_
	OC    // overcharge
	CHGC  // charging current too high
	CHGV  // charging voltage too high
	PCHGC // precharge current too high
	UTC   // undertemperature in charge
	UTD   // undertemperature in discharge
	COVL  // cell overvoltage, latched
	OCDL  // overcurrent in discharge, latched
)

var safetyNames = []string{
	"CUV", "COV", "OCC1", "OCC2", "OCD1", "OCD2", "AOLD", "AOLDL", "ASCC", "ASCCL", "ASCD", "ASCDL", "OTC", "OTD",
	"CUVC", "", "OTF", "HWD", "PTO", "", "CTO", "", "OC", "CHGC", "CHGV", "PCHGC", "UTC", "UTD", "COVL", "OCDL",
}

// Names lists the flags that are set, by TI's names.
func (s Safety) Names() []string { return names(uint32(s), safetyNames) }

// Faults says the same in the vocabulary of all packs.
func (s Safety) Faults() bms.Faults {
	var f bms.Faults
	for _, m := range [...]struct {
		bits Safety
		is   bms.Faults
	}{
		{CUV | CUVC, bms.CellUndervoltage},
		{COV | COVL, bms.CellOvervoltage},
		{OC | CHGV, bms.PackOvervoltage},
		{OCC1 | OCC2 | CHGC | PCHGC, bms.ChargeOvercurrent},
		{OCD1 | OCD2 | OCDL | AOLD | AOLDL, bms.DischargeOvercurrent},
		{ASCC | ASCCL | ASCD | ASCDL, bms.ShortCircuit},
		{OTC | OTD | OTF, bms.Overtemperature},
		{UTC | UTD, bms.Undertemperature},
		{PTO | CTO, bms.ChargeTimeout},
		{HWD, bms.HostWatchdog},
	} {
		if s&m.bits != 0 {
			f |= m.is
		}
	}
	return f
}

// Failure is TI's PFStatus, sub-command 0x0053, or PFAlert, 0x0052: the pack is done with for good.
type Failure uint32

var failureNames = []string{
	0: "SUV", 1: "SOV", 2: "SOCC", 3: "SOCD", 4: "SOT", 6: "SOTF", 7: "QIM", 8: "CB", 9: "IMP", 10: "CD", 11: "VIMR",
	12: "VIMA", 16: "CFETF", 17: "DFETF", 19: "FUSE", 20: "AFER", 21: "AFEC", 22: "2LVL", 23: "PTC", 24: "IFC",
	25: "OPNCELL", 26: "DFW", 28: "TS1", 29: "TS2", 30: "TS3", 31: "TS4",
}

// Names lists the flags that are set, by TI's names; TS1 to TS4 are open thermistors.
func (f Failure) Names() []string { return names(uint32(f), failureNames) }

// Gauging is TI's GaugingStatus, sub-command 0x0056, of 24 bits.
type Gauging uint32

var gaugingNames = []string{
	0: "FD", 1: "FC", 2: "TD", 3: "TC", 4: "BAL", 5: "EDV", 6: "DSG", 7: "CF", 8: "REST", 10: "R_DIS", 11: "VOK",
	12: "QEN", 13: "SLPQMAX", 15: "NSFM", 16: "VDQ", 17: "QMAX", 18: "RX", 19: "LDMD", 20: "OCVFR",
}

// Names lists the flags that are set, by TI's names.
func (g Gauging) Names() []string { return names(uint32(g), gaugingNames) }

// names lists the names of the bits that are set and have one, the lowest first; empty, not nil, for none.
func names(bits uint32, of []string) []string {
	set := []string{}
	for i, name := range of {
		if name != "" && bits&(1<<i) != 0 {
			set = append(set, name)
		}
	}
	return set
}
