// Package roboclaw drives Basicmicro's RoboClaw and MCP, two-channel controllers for brushed motors, over
// packet serial, and is such a unit from the other side.
//
// A packet is 8N1 bytes; values are big-endian, signed ones in two's complement:
//
//	write    [address 0x80…0x87] [command] [arguments] [CRC high] [CRC low]
//	reply    [0xff]
//
//	read     [address] [command] [arguments]               no CRC, and rarely an argument
//	reply    [values] [CRC high] [CRC low]
//
// The CRC is CRC-16/XMODEM (x¹⁶+x¹²+x⁵+1, from 0, not reflected). A write's covers all that precedes it. A
// reply's covers the request and then the values, so that it cannot pass for the reply to another request.
//
//	80 22 40 00 C0 00 E0 DF → FF             duty +50 % to M1, −50 % to M2
//	80 18                   → 00 7E A8 A3    main battery: 12.6 V
//
// Whatever is wrong, the unit is silent. A pause of more than 10 ms inside a packet makes it forget the
// packet, which is the only way to bring both sides together again.
//
// Written from the Basicmicro user manual and what both vendor libraries put on the wire. command.go lists
// every command with its layout; codec.go, status.go and settings.go are pure; client.go is one exchange
// over a port; group.go, arm.go, read.go and write.go are the motor.Group; sim*.go are the simulator.
package roboclaw

import (
	"encoding/binary"
	"errors"
	"fmt"

	"hilgate/model/link"
)

// The addresses that a unit can have.
const (
	FirstAddress = 0x80
	LastAddress  = 0x87
)

// ack is the whole reply to a write.
const ack = 0xff

// maxPacket is the longest request: a position command for both motors. maxReply is the longest reply: the
// bulk status. maxVersion is the longest text of a version, its zero included.
const (
	maxPacket  = 2 + 33 + 2
	maxReply   = 56 + 2
	maxVersion = 48
	maxValues  = 20
)

// Errors of the codec. Each is, by errors.Is, the kind that it wraps.
var (
	ErrCRC     = fmt.Errorf("reply: %w", link.CRC)
	ErrAck     = fmt.Errorf("acknowledgement is not 0xff: %w", link.Malformed)
	ErrSurplus = fmt.Errorf("more bytes than the reply has: %w", link.Malformed)
	ErrShort   = fmt.Errorf("reply: %w", link.Short)
	ErrVersion = fmt.Errorf("version text has no end: %w", link.Malformed)

	ErrUnknown = errors.New("this firmware has no such command")
	ErrValues  = errors.New("wrong number of values for the command")
	ErrRange   = errors.New("value does not fit the command's layout")
	ErrPacket  = errors.New("packet: CRC does not match")
	ErrAddress = errors.New("packet: no address")
)

// CRC continues the CRC-16/XMODEM over b; it starts from 0. Over "123456789" it is 0x31c3.
func CRC(crc uint16, b []byte) uint16 {
	for _, c := range b {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^c]
	}
	return crc
}

var crcTable = func() (t [256]uint16) {
	for i := range t {
		r := uint16(i) << 8
		for range 8 {
			if r&0x8000 != 0 {
				r = r<<1 ^ 0x1021
			} else {
				r <<= 1
			}
		}
		t[i] = r
	}
	return t
}()

// AppendRequest appends the packet of command c to the unit at addr, as firmware f knows it. The values are
// the command's arguments in wire order: see Command.
func AppendRequest(dst []byte, f Firmware, addr byte, c Command, values ...int64) ([]byte, error) {
	form := c.form(f)
	if form == nil {
		return dst, fmt.Errorf("%v: %w", c, ErrUnknown)
	}
	start := len(dst)
	packet, err := appendValues(append(dst, addr, byte(c)), form.args, values)
	if err != nil {
		return dst, fmt.Errorf("%v: %w", c, err)
	}
	if form.write {
		packet = binary.BigEndian.AppendUint16(packet, CRC(0, packet[start:]))
	}
	return packet, nil
}

// Request is a packet as the unit understood it. Only the first N values count.
type Request struct {
	Addr    byte
	Command Command
	Values  [maxArgs]int64
	N       int
}

// maxArgs is the most arguments of one command.
const maxArgs = 9

// ParseRequest decodes the packet at the start of b, as a unit of firmware f does, and says how many bytes
// it took. n = 0 without an error asks for more bytes. With ErrPacket, n bytes are to be skipped; with
// ErrUnknown and ErrAddress nobody can know where the next packet starts, so n is all of b.
func ParseRequest(b []byte, f Firmware) (r Request, n int, err error) {
	if len(b) > 0 && (b[0] < FirstAddress || b[0] > LastAddress) {
		return r, len(b), ErrAddress
	}
	if len(b) < 2 {
		return r, 0, nil
	}
	r.Addr, r.Command = b[0], Command(b[1])
	form := r.Command.form(f)
	if form == nil {
		return r, len(b), ErrUnknown
	}
	n = 2 + size(form.args)
	if form.write {
		n += 2
	}
	if len(b) < n {
		return r, 0, nil
	}
	if form.write && CRC(0, b[:n]) != 0 { // a packet with its own CRC behind it has the CRC 0
		return r, n, ErrPacket
	}
	r.N = parseValues(r.Values[:], form.args, b[2:])
	return r, n, nil
}

// AppendReply appends what a unit of firmware f answers to a request: the acknowledgement of a write, or
// the values of a read. request is the packet as it came.
func AppendReply(dst []byte, f Firmware, request []byte, values ...int64) ([]byte, error) {
	c := Command(request[1])
	form := c.form(f)
	switch {
	case form == nil:
		return dst, fmt.Errorf("%v: %w", c, ErrUnknown)
	case form.write:
		return append(dst, ack), nil
	}
	start := len(dst)
	reply, err := appendValues(dst, form.reply, values)
	if err != nil {
		return dst, fmt.Errorf("%v: %w", c, err)
	}
	return binary.BigEndian.AppendUint16(reply, CRC(CRC(0, request), reply[start:])), nil
}

// AppendVersion appends the reply to GetVersion: the text, a zero, and the CRC.
func AppendVersion(dst, request []byte, text string) []byte {
	start := len(dst)
	dst = append(append(dst, text...), 0)
	return binary.BigEndian.AppendUint16(dst, CRC(CRC(0, request), dst[start:]))
}

// ParseReply checks a whole reply to a request and puts its values, in wire order, into values; it says how
// many they are. The error is ErrAck, ErrCRC, ErrShort or ErrSurplus.
func ParseReply(values []int64, f Firmware, request, reply []byte) (n int, err error) {
	form := Command(request[1]).form(f)
	if form == nil {
		return 0, ErrUnknown
	}
	if form.write {
		switch {
		case len(reply) == 0:
			return 0, ErrShort
		case reply[0] != ack:
			return 0, ErrAck
		case len(reply) > 1:
			return 0, ErrSurplus
		}
		return 0, nil
	}
	want := size(form.reply) + 2
	switch {
	case len(reply) < want:
		return 0, ErrShort
	case CRC(CRC(0, request), reply[:want]) != 0:
		return 0, ErrCRC
	case len(reply) > want:
		return 0, ErrSurplus
	case len(values) < len(form.reply):
		return 0, ErrValues
	}
	return parseValues(values, form.reply, reply), nil
}

// ParseVersion decodes a reply to GetVersion at the start of reply and says how many bytes it took. n = 0
// without an error asks for more bytes.
func ParseVersion(request, reply []byte) (text string, n int, err error) {
	for i, c := range reply[:min(len(reply), maxVersion)] {
		if c != 0 {
			continue
		}
		n = i + 3
		switch {
		case len(reply) < n:
			return "", 0, nil
		case CRC(CRC(0, request), reply[:n]) != 0:
			return "", n, ErrCRC
		}
		return string(reply[:i]), n, nil
	}
	if len(reply) >= maxVersion {
		return "", len(reply), ErrVersion
	}
	return "", 0, nil
}

// The fields of a layout, one letter each.
const (
	u8  = 'b'
	u16 = 'H'
	s16 = 'h'
	u32 = 'I'
	s32 = 'i'
)

// size is how many bytes a layout takes.
func size(layout string) (n int) {
	for i := range len(layout) {
		n += width(layout[i])
	}
	return n
}

func width(field byte) int {
	switch field {
	case u8:
		return 1
	case u16, s16:
		return 2
	}
	return 4
}

func appendValues(dst []byte, layout string, values []int64) ([]byte, error) {
	if len(values) != len(layout) {
		return dst, ErrValues
	}
	for i, v := range values {
		field := layout[i]
		bits := 8 * width(field)
		low, high := int64(0), int64(1)<<bits-1
		if field == s16 || field == s32 {
			low, high = -1<<(bits-1), 1<<(bits-1)-1
		}
		if v < low || v > high {
			return dst, ErrRange
		}
		for shift := bits - 8; shift >= 0; shift -= 8 {
			dst = append(dst, byte(v>>shift))
		}
	}
	return dst, nil
}

// parseValues decodes a layout from b, which is long enough, and says how many values it has.
func parseValues(values []int64, layout string, b []byte) int {
	for i := range len(layout) {
		var v int64
		switch layout[i] {
		case u8:
			v = int64(b[0])
		case u16:
			v = int64(binary.BigEndian.Uint16(b))
		case s16:
			v = int64(int16(binary.BigEndian.Uint16(b)))
		case u32:
			v = int64(binary.BigEndian.Uint32(b))
		case s32:
			v = int64(int32(binary.BigEndian.Uint32(b)))
		}
		values[i] = v
		b = b[width(layout[i]):]
	}
	return len(layout)
}
