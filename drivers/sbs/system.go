package sbs

// Commands of a smart-battery charger at ChargerAddress and a system manager at ManagerAddress.
const (
	CmdChargerStatus = 0x13 // of the charger: ChargerStatus
	CmdSystemState   = 0x01 // of the manager: SystemState
	CmdStateCont     = 0x02 // of the manager: StateCont
	CmdSystemInfo    = 0x04 // of the manager: SystemInfo
)

// The 7-bit addresses of SMBus 2.0, appendix C.
const (
	BatteryAddress = 0x0b
	ChargerAddress = 0x09
	ManagerAddress = 0x0a
)

// ChargerStatus is what a smart-battery charger (Smart Battery Charger Specification 1.1) tells of itself.
type ChargerStatus uint16

const (
	ChargeInhibited ChargerStatus = 1 << 0
	ResistorCold    ChargerStatus = 1 << 9 // the pack's thermistor says cold
	ResistorHot     ChargerStatus = 1 << 10
	BatteryPresent  ChargerStatus = 1 << 14
	ACPresent       ChargerStatus = 1 << 15
)

// Batteries is a set of the batteries A to D of a system manager, in bits 0 to 3.
type Batteries uint8

// SystemState is BatterySystemState of a manager (Smart Battery System Manager Specification 1.1).
type SystemState uint16

// Present are the batteries that are plugged in.
func (s SystemState) Present() Batteries { return Batteries(s & 15) }

// Charging are those that are being charged.
func (s SystemState) Charging() Batteries { return Batteries(s >> 4 & 15) }

// Powering are those that feed the system.
func (s SystemState) Powering() Batteries { return Batteries(s >> 8 & 15) }

// SMB is the one that answers at BatteryAddress.
func (s SystemState) SMB() Batteries { return Batteries(s >> 12) }

// StateCont is BatterySystemStateCont of a manager.
type StateCont uint16

// ACPresent reports whether the system is on mains.
func (s StateCont) ACPresent() bool { return s&1 != 0 }

// SystemInfo is BatterySystemInfo of a manager.
type SystemInfo uint16

// Supported are the batteries that the manager has room for.
func (s SystemInfo) Supported() Batteries { return Batteries(s & 15) }
