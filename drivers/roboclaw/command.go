package roboclaw

import "fmt"

// Firmware is a generation of the unit's program; some layouts differ between them, and some commands exist
// in one only.
type Firmware uint8

const (
	Modern Firmware = iota // as the library of 2026 speaks to it
	Old                    // as the library of 2019 does
	firmwares
)

func (f Firmware) String() string {
	if f == Old {
		return "old"
	}
	return "modern"
}

// Command is the second byte of a packet. The comment of each lists its arguments, and its reply after an
// arrow, in wire order:
//
//	duty    s16, ±32767 is ±100 %        speed    s32, counts/s            accel  u32, counts/s²
//	count   s32                          dist     u32, counts              buf    u8, 0 to append to the
//	                                                                              queue, 1 to act at once
type Command byte

// Motion. With Both, the arguments of M1 precede those of M2.
const (
	ForwardM1  Command = 0x00 // u8 0…127
	BackwardM1 Command = 0x01 // u8 0…127
	ForwardM2  Command = 0x04 // u8 0…127
	BackwardM2 Command = 0x05 // u8 0…127
	DriveM1    Command = 0x06 // u8 0…127, 64 is stop
	DriveM2    Command = 0x07 // u8 0…127, 64 is stop

	// Mixed drive of a differential chassis moves once it has been given both a pace and a turn.
	MixedForward  Command = 0x08 // u8 0…127
	MixedBackward Command = 0x09 // u8 0…127
	MixedRight    Command = 0x0a // u8 0…127
	MixedLeft     Command = 0x0b // u8 0…127
	MixedDrive    Command = 0x0c // u8 0…127, 64 is stop
	MixedTurn     Command = 0x0d // u8 0…127, 64 is straight on

	DutyM1   Command = 0x20 // duty
	DutyM2   Command = 0x21 // duty
	DutyBoth Command = 0x22 // duty, duty

	SpeedM1         Command = 0x23 // speed
	SpeedM2         Command = 0x24 // speed
	SpeedBoth       Command = 0x25 // speed, speed
	SpeedAccelM1    Command = 0x26 // accel, speed
	SpeedAccelM2    Command = 0x27 // accel, speed
	SpeedAccelBoth  Command = 0x28 // accel, speed, speed
	SpeedAccelBoth2 Command = 0x32 // accel, speed, accel, speed

	SpeedDistanceM1         Command = 0x29 // speed, dist, buf
	SpeedDistanceM2         Command = 0x2a // speed, dist, buf
	SpeedDistanceBoth       Command = 0x2b // speed, dist, speed, dist, buf
	SpeedAccelDistanceM1    Command = 0x2c // accel, speed, dist, buf
	SpeedAccelDistanceM2    Command = 0x2d // accel, speed, dist, buf
	SpeedAccelDistanceBoth  Command = 0x2e // accel, speed, dist, speed, dist, buf
	SpeedAccelDistanceBoth2 Command = 0x33 // accel, speed, dist, accel, speed, dist, buf

	DutyAccelM1   Command = 0x34 // duty, u32 0…655359 in duty units per second
	DutyAccelM2   Command = 0x35 // duty, u32
	DutyAccelBoth Command = 0x36 // duty, u32, duty, u32

	PositionM1          Command = 0x41 // accel, u32 counts/s, u32 deceleration, count, buf
	PositionM2          Command = 0x42 // the same
	PositionBoth        Command = 0x43 // accel, u32, u32, count, accel, u32, u32, count, buf
	DefaultPositionM1   Command = 0x77 // count, buf
	DefaultPositionM2   Command = 0x78 // count, buf
	DefaultPositionBoth Command = 0x79 // count, count, buf
	SpeedPositionM1     Command = 0x7a // u32 counts/s, count, buf
	SpeedPositionM2     Command = 0x7b // u32 counts/s, count, buf
	SpeedPositionBoth   Command = 0x7c // u32, count, u32, count, buf
	PercentPositionM1   Command = 0x7d // s16, buf
	PercentPositionM2   Command = 0x7e // s16, buf
	PercentPositionBoth Command = 0x7f // s16, s16, buf
)

// Reading.
const (
	GetEncoderM1      Command = 0x10 // → count, u8 Encoder status
	GetEncoderM2      Command = 0x11 // → count, u8
	GetSpeedM1        Command = 0x12 // → speed, u8: 1 is backwards; filtered
	GetSpeedM2        Command = 0x13 // → speed, u8
	GetVersion        Command = 0x15 // → text, 0: see ParseVersion
	GetMainVoltage    Command = 0x18 // → u16, 0.1 V
	GetLogicVoltage   Command = 0x19 // → u16, 0.1 V
	GetRawSpeedM1     Command = 0x1e // → speed, u8: 1 is backwards; over the last 1/300 s
	GetRawSpeedM2     Command = 0x1f // → speed, u8
	GetBuffers        Command = 0x2f // → u8, u8: see Buffer
	GetPWMs           Command = 0x30 // → duty, duty
	GetCurrents       Command = 0x31 // → s16, s16, 10 mA
	GetBulk           Command = 0x49 // → see Bulk
	GetEncoders       Command = 0x4e // → count, count
	GetRawSpeeds      Command = 0x4f // → speed, speed; over the last 1/300 s
	GetTemperature    Command = 0x52 // → u16, 0.1 °C
	GetTemperature2   Command = 0x53 // → u16, 0.1 °C
	GetStatus         Command = 0x5a // → u32, or u16 of old firmware: see Status
	GetEncoderModes   Command = 0x5b // → u8, u8
	GetVoltages       Command = 0x64 // → u16 main, u16 logic, 0.1 V
	GetTemperatures   Command = 0x65 // → u16, u16, 0.1 °C
	GetEncoderStatus  Command = 0x67 // → u8, u8
	GetSpeeds         Command = 0x6c // → speed, speed; averaged
	GetSpeedErrors    Command = 0x6f // → u16, u16
	GetPositionErrors Command = 0x72 // → u16, u16
)

// Settings.
const (
	SetTimeout            Command = 0x0e // u8, 0.1 s; 0 is off
	GetTimeout            Command = 0x0f // → u8
	ResetEncoders         Command = 0x14 //
	SetEncoderM1          Command = 0x16 // count
	SetEncoderM2          Command = 0x17 // count
	SetVelocityPIDM1      Command = 0x1c // u32 D, P, I, ×65536; u32 QPPS: see VelocityPID
	SetVelocityPIDM2      Command = 0x1d // the same
	GetVelocityPIDM1      Command = 0x37 // → u32 P, I, D, ×65536; u32 QPPS
	GetVelocityPIDM2      Command = 0x38 // → the same
	SetMainLimits         Command = 0x39 // u16 least, u16 most, 0.1 V; then, not in old firmware, u8 offset
	SetLogicLimits        Command = 0x3a // u16 least, u16 most, 0.1 V
	GetMainLimits         Command = 0x3b // → as set
	GetLogicLimits        Command = 0x3c // → as set
	SetPositionPIDM1      Command = 0x3d // u32 D, P, I, ×1024; u32 most I, u32 dead zone, count least, count most
	SetPositionPIDM2      Command = 0x3e // the same
	GetPositionPIDM1      Command = 0x3f // → u32 P, I, D, ×1024; then as set
	GetPositionPIDM2      Command = 0x40 // → the same
	SetDutyAccelM1        Command = 0x44 // u32 accel, u32 deceleration in duty units per second; old: one for both
	SetDutyAccelM2        Command = 0x45 // the same
	SetPositionSpeedM1    Command = 0x46 // u16
	SetPositionSpeedM2    Command = 0x47 // u16
	GetPositionSpeeds     Command = 0x48 // → u16, u16
	SetPins               Command = 0x4a // u8 S3, S4, S5; then, not in old firmware, u8 D1, D2
	GetPins               Command = 0x4b // → as set
	RestoreDefaults       Command = 0x50 // u32 Key; old: nothing
	GetDutyAccels         Command = 0x51 // → u32 accel M1, deceleration M1, accel M2, deceleration M2
	SetEncoderModeM1      Command = 0x5c // u8
	SetEncoderModeM2      Command = 0x5d // u8
	WriteNVM              Command = 0x5e // u32 Key
	ReadNVM               Command = 0x5f //
	SetConfig             Command = 0x62 // u16; another mode or bit rate here ends communication
	GetConfig             Command = 0x63 // → u16
	SetSpeedErrorLimit    Command = 0x6d // u16, u16; old: u32, u32
	GetSpeedErrorLimit    Command = 0x6e // → as set
	SetPositionErrorLimit Command = 0x70 // u16, u16; old: u32, u32
	GetPositionErrorLimit Command = 0x71 // → as set
	SetWindingM1          Command = 0x80 // u32 H, u32 Ω, ×2²⁴
	SetWindingM2          Command = 0x81 // the same
	GetWindingM1          Command = 0x82 // → as set
	GetWindingM2          Command = 0x83 // → as set
	SetMaxCurrentM1       Command = 0x85 // u32 most, u32 least (0), 10 mA
	SetMaxCurrentM2       Command = 0x86 // the same
	GetMaxCurrentM1       Command = 0x87 // → as set
	GetMaxCurrentM2       Command = 0x88 // → as set
	SetPWMMode            Command = 0x94 // u8 M1, u8 M2: 0 locked anti-phase, 1 sign-magnitude; old: one for both
	GetPWMMode            Command = 0x95 // → as set
	ResetEStop            Command = 0xc8 //
	SetEStopLock          Command = 0xc9 // u8: see the Lock constants
	GetEStopLock          Command = 0xca // → u8
	ReadEEPROM            Command = 0xfc // u8 address → u16
	WriteEEPROM           Command = 0xfd // u8 address, u16
)

// Key unlocks WriteNVM and, in modern firmware, RestoreDefaults.
const Key = 0xe22eab7a

// How an emergency stop ends.
const (
	LockAutomatic = 0x55 // with its cause
	LockSoftware  = 0xaa // by ResetEStop
	LockHardware  = 0x00 // by switching the unit off and on
)

// form is the layout of one command in one firmware.
type form struct {
	write       bool   // acknowledged and guarded by a CRC, else a read
	args, reply string // one letter a field
}

type command struct {
	name  string
	forms [firmwares]*form
}

func (c Command) form(f Firmware) *form { return commands[c].forms[f] }

// In reports whether firmware f has the command.
func (c Command) In(f Firmware) bool { return c.form(f) != nil }

// String is the command's name and byte.
func (c Command) String() string {
	if name := commands[c].name; name != "" {
		return name
	}
	return fmt.Sprintf("command 0x%02x", byte(c))
}

func set(args string) *form          { return &form{write: true, args: args} }
func get(reply string) *form         { return &form{reply: reply} }
func both(f *form) [firmwares]*form  { return [firmwares]*form{Modern: f, Old: f} }
func since(f *form) [firmwares]*form { return [firmwares]*form{Modern: f} }
func changed(modern, old *form) [firmwares]*form {
	return [firmwares]*form{Modern: modern, Old: old}
}

var commands = [256]command{
	ForwardM1:     {"forward M1", both(set("b"))},
	BackwardM1:    {"backward M1", both(set("b"))},
	ForwardM2:     {"forward M2", both(set("b"))},
	BackwardM2:    {"backward M2", both(set("b"))},
	DriveM1:       {"drive M1", both(set("b"))},
	DriveM2:       {"drive M2", both(set("b"))},
	MixedForward:  {"mixed forward", both(set("b"))},
	MixedBackward: {"mixed backward", both(set("b"))},
	MixedRight:    {"mixed right", both(set("b"))},
	MixedLeft:     {"mixed left", both(set("b"))},
	MixedDrive:    {"mixed drive", both(set("b"))},
	MixedTurn:     {"mixed turn", both(set("b"))},

	DutyM1:   {"duty M1", both(set("h"))},
	DutyM2:   {"duty M2", both(set("h"))},
	DutyBoth: {"duty", both(set("hh"))},

	SpeedM1:         {"speed M1", both(set("i"))},
	SpeedM2:         {"speed M2", both(set("i"))},
	SpeedBoth:       {"speed", both(set("ii"))},
	SpeedAccelM1:    {"accelerated speed M1", both(set("Ii"))},
	SpeedAccelM2:    {"accelerated speed M2", both(set("Ii"))},
	SpeedAccelBoth:  {"accelerated speed", both(set("Iii"))},
	SpeedAccelBoth2: {"accelerated speed, one acceleration each", both(set("IiIi"))},

	SpeedDistanceM1:         {"distance M1", both(set("iIb"))},
	SpeedDistanceM2:         {"distance M2", both(set("iIb"))},
	SpeedDistanceBoth:       {"distance", both(set("iIiIb"))},
	SpeedAccelDistanceM1:    {"accelerated distance M1", both(set("IiIb"))},
	SpeedAccelDistanceM2:    {"accelerated distance M2", both(set("IiIb"))},
	SpeedAccelDistanceBoth:  {"accelerated distance", both(set("IiIiIb"))},
	SpeedAccelDistanceBoth2: {"accelerated distance, one acceleration each", both(set("IiIIiIb"))},

	DutyAccelM1:   {"accelerated duty M1", both(set("hI"))},
	DutyAccelM2:   {"accelerated duty M2", both(set("hI"))},
	DutyAccelBoth: {"accelerated duty", both(set("hIhI"))},

	PositionM1:          {"position M1", both(set("IIIib"))},
	PositionM2:          {"position M2", both(set("IIIib"))},
	PositionBoth:        {"position", both(set("IIIiIIIib"))},
	DefaultPositionM1:   {"position M1 by default profile", since(set("ib"))},
	DefaultPositionM2:   {"position M2 by default profile", since(set("ib"))},
	DefaultPositionBoth: {"position by default profile", since(set("iib"))},
	SpeedPositionM1:     {"position M1 at speed", since(set("Iib"))},
	SpeedPositionM2:     {"position M2 at speed", since(set("Iib"))},
	SpeedPositionBoth:   {"position at speed", since(set("IiIib"))},
	PercentPositionM1:   {"position M1 in percent", since(set("hb"))},
	PercentPositionM2:   {"position M2 in percent", since(set("hb"))},
	PercentPositionBoth: {"position in percent", since(set("hhb"))},

	GetEncoderM1:      {"read encoder M1", both(get("ib"))},
	GetEncoderM2:      {"read encoder M2", both(get("ib"))},
	GetSpeedM1:        {"read speed M1", both(get("ib"))},
	GetSpeedM2:        {"read speed M2", both(get("ib"))},
	GetVersion:        {"read version", both(get(""))},
	GetMainVoltage:    {"read main voltage", both(get("H"))},
	GetLogicVoltage:   {"read logic voltage", both(get("H"))},
	GetRawSpeedM1:     {"read raw speed M1", both(get("ib"))},
	GetRawSpeedM2:     {"read raw speed M2", both(get("ib"))},
	GetBuffers:        {"read buffers", both(get("bb"))},
	GetPWMs:           {"read PWM", both(get("hh"))},
	GetCurrents:       {"read currents", both(get("hh"))},
	GetBulk:           {"read bulk status", since(get("IIHHHHhhhhiiiiiihhhh"))},
	GetEncoders:       {"read encoders", since(get("ii"))},
	GetRawSpeeds:      {"read raw speeds", since(get("ii"))},
	GetTemperature:    {"read temperature", both(get("H"))},
	GetTemperature2:   {"read temperature 2", both(get("H"))},
	GetStatus:         {"read status", changed(get("I"), get("H"))},
	GetEncoderModes:   {"read encoder modes", both(get("bb"))},
	GetVoltages:       {"read voltages", since(get("HH"))},
	GetTemperatures:   {"read temperatures", since(get("HH"))},
	GetEncoderStatus:  {"read encoder status", since(get("bb"))},
	GetSpeeds:         {"read speeds", both(get("ii"))},
	GetSpeedErrors:    {"read speed errors", since(get("HH"))},
	GetPositionErrors: {"read position errors", since(get("HH"))},

	SetTimeout:            {"set serial timeout", both(set("b"))},
	GetTimeout:            {"read serial timeout", both(get("b"))},
	ResetEncoders:         {"reset encoders", both(set(""))},
	SetEncoderM1:          {"preset encoder M1", both(set("i"))},
	SetEncoderM2:          {"preset encoder M2", both(set("i"))},
	SetVelocityPIDM1:      {"set velocity PID M1", both(set("IIII"))},
	SetVelocityPIDM2:      {"set velocity PID M2", both(set("IIII"))},
	GetVelocityPIDM1:      {"read velocity PID M1", both(get("IIII"))},
	GetVelocityPIDM2:      {"read velocity PID M2", both(get("IIII"))},
	SetMainLimits:         {"set main voltage limits", changed(set("HHb"), set("HH"))},
	SetLogicLimits:        {"set logic voltage limits", both(set("HH"))},
	GetMainLimits:         {"read main voltage limits", changed(get("HHb"), get("HH"))},
	GetLogicLimits:        {"read logic voltage limits", both(get("HH"))},
	SetPositionPIDM1:      {"set position PID M1", both(set("IIIIIii"))},
	SetPositionPIDM2:      {"set position PID M2", both(set("IIIIIii"))},
	GetPositionPIDM1:      {"read position PID M1", both(get("IIIIIii"))},
	GetPositionPIDM2:      {"read position PID M2", both(get("IIIIIii"))},
	SetDutyAccelM1:        {"set duty acceleration M1", changed(set("II"), set("I"))},
	SetDutyAccelM2:        {"set duty acceleration M2", changed(set("II"), set("I"))},
	SetPositionSpeedM1:    {"set position speed M1", both(set("H"))},
	SetPositionSpeedM2:    {"set position speed M2", both(set("H"))},
	GetPositionSpeeds:     {"read position speeds", both(get("HH"))},
	SetPins:               {"set pin functions", changed(set("bbbbb"), set("bbb"))},
	GetPins:               {"read pin functions", changed(get("bbbbb"), get("bbb"))},
	RestoreDefaults:       {"restore defaults", changed(set("I"), set(""))},
	GetDutyAccels:         {"read duty accelerations", since(get("IIII"))},
	SetEncoderModeM1:      {"set encoder mode M1", both(set("b"))},
	SetEncoderModeM2:      {"set encoder mode M2", both(set("b"))},
	WriteNVM:              {"write NVM", both(set("I"))},
	ReadNVM:               {"read NVM", both(set(""))},
	SetConfig:             {"set configuration", both(set("H"))},
	GetConfig:             {"read configuration", both(get("H"))},
	SetSpeedErrorLimit:    {"set speed error limits", changed(set("HH"), set("II"))},
	GetSpeedErrorLimit:    {"read speed error limits", changed(get("HH"), get("II"))},
	SetPositionErrorLimit: {"set position error limits", changed(set("HH"), set("II"))},
	GetPositionErrorLimit: {"read position error limits", changed(get("HH"), get("II"))},
	SetWindingM1:          {"set winding M1", since(set("II"))},
	SetWindingM2:          {"set winding M2", since(set("II"))},
	GetWindingM1:          {"read winding M1", since(get("II"))},
	GetWindingM2:          {"read winding M2", since(get("II"))},
	SetMaxCurrentM1:       {"set max current M1", both(set("II"))},
	SetMaxCurrentM2:       {"set max current M2", both(set("II"))},
	GetMaxCurrentM1:       {"read max current M1", both(get("II"))},
	GetMaxCurrentM2:       {"read max current M2", both(get("II"))},
	SetPWMMode:            {"set PWM mode", changed(set("bb"), set("b"))},
	GetPWMMode:            {"read PWM mode", changed(get("bb"), get("b"))},
	ResetEStop:            {"reset emergency stop", since(set(""))},
	SetEStopLock:          {"set emergency stop lock", since(set("b"))},
	GetEStopLock:          {"read emergency stop lock", since(get("b"))},
	ReadEEPROM:            {"read EEPROM", both(&form{args: "b", reply: "H"})},
	WriteEEPROM:           {"write EEPROM", both(set("bH"))},
}
