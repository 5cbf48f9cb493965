package smbus

import (
	"fmt"

	"hilgate/model/link"
)

// pecTable holds the packet error code of every byte: CRC-8, x⁸+x²+x+1 (0x07), initial 0, not reflected,
// no final xor (SMBus 2.0, 5.4.1.1). The code of "123456789" is 0xF4.
var pecTable = func() (t [256]byte) {
	for i := range t {
		crc := byte(i)
		for range 8 {
			if crc&0x80 != 0 {
				crc = crc<<1 ^ 0x07
			} else {
				crc <<= 1
			}
		}
		t[i] = crc
	}
	return t
}()

// PEC continues the packet error code crc over the bytes p; it starts at 0.
func PEC(crc byte, p ...byte) byte {
	for _, b := range p {
		crc = pecTable[crc^b]
	}
	return crc
}

// writePEC is the code over the part of a message that the host sends: address with the write bit, and
// everything that follows it.
func writePEC(addr uint16, p []byte) byte { return PEC(PEC(0, byte(addr<<1)), p...) }

// readPEC is the code over a whole read: address, command, address with the read bit, and the answer.
func readPEC(addr uint16, cmd byte, answer []byte) byte {
	return PEC(PEC(0, byte(addr<<1), cmd, byte(addr<<1|1)), answer...)
}

// AppendWriteWord appends what a host sends after the address to write a word: [cmd] [low] [high] ([PEC]).
func AppendWriteWord(dst []byte, addr uint16, cmd byte, word uint16, pec bool) []byte {
	start := len(dst)
	dst = append(dst, cmd, byte(word), byte(word>>8))
	if pec {
		dst = append(dst, writePEC(addr, dst[start:]))
	}
	return dst
}

// AppendWriteBlock appends what a host sends after the address to write a block of at most 255 bytes:
// [cmd] [length] [data…] ([PEC]).
func AppendWriteBlock(dst []byte, addr uint16, cmd byte, data []byte, pec bool) []byte {
	start := len(dst)
	dst = append(dst, cmd, byte(len(data)))
	dst = append(dst, data...)
	if pec {
		dst = append(dst, writePEC(addr, dst[start:]))
	}
	return dst
}

// AppendWord appends what a device clocks out when a word is read: [low] [high] ([PEC]).
func AppendWord(dst []byte, addr uint16, cmd byte, word uint16, pec bool) []byte {
	start := len(dst)
	dst = append(dst, byte(word), byte(word>>8))
	if pec {
		dst = append(dst, readPEC(addr, cmd, dst[start:]))
	}
	return dst
}

// AppendBlock appends what a device clocks out when a block of at most 255 bytes is read:
// [length] [data…] ([PEC]).
func AppendBlock(dst []byte, addr uint16, cmd byte, data []byte, pec bool) []byte {
	start := len(dst)
	dst = append(dst, byte(len(data)))
	dst = append(dst, data...)
	if pec {
		dst = append(dst, readPEC(addr, cmd, dst[start:]))
	}
	return dst
}

// ParseWord decodes the answer r to the reading of a word; bytes beyond it are ignored. The error is
// link.Short or link.PEC.
func ParseWord(r []byte, addr uint16, cmd byte, pec bool) (uint16, error) {
	if n := wordLen(pec); len(r) < n {
		return 0, fmt.Errorf("%d of %d bytes: %w", len(r), n, link.Short)
	}
	if pec {
		if err := check(addr, cmd, r[:2], r[2]); err != nil {
			return 0, err
		}
	}
	return uint16(r[0]) | uint16(r[1])<<8, nil
}

// ParseBlock decodes the answer r to the reading of a block that may carry at most limit bytes; what was
// clocked beyond its end is ignored. The data returned is part of r.
//
// A length that is not allowed is link.Short even where the code fits, and is found first, since a damaged
// length moves the place of the code. Otherwise a wrong code is link.PEC.
func ParseBlock(r []byte, addr uint16, cmd byte, limit int, pec bool) ([]byte, error) {
	if len(r) == 0 {
		return nil, fmt.Errorf("no length: %w", link.Short)
	}
	n := int(r[0])
	if n > limit {
		return nil, fmt.Errorf("block of %d bytes, at most %d allowed: %w", n, limit, link.Short)
	}
	if need := blockLen(n, pec); len(r) < need {
		return nil, fmt.Errorf("%d of %d bytes: %w", len(r), need, link.Short)
	}
	if pec {
		if err := check(addr, cmd, r[:1+n], r[1+n]); err != nil {
			return nil, err
		}
	}
	return r[1 : 1+n], nil
}

func check(addr uint16, cmd byte, answer []byte, got byte) error {
	if want := readPEC(addr, cmd, answer); got != want {
		return fmt.Errorf("got 0x%02x, want 0x%02x: %w", got, want, link.PEC)
	}
	return nil
}

func wordLen(pec bool) int {
	if pec {
		return 3
	}
	return 2
}

func blockLen(data int, pec bool) int {
	if pec {
		return data + 2
	}
	return data + 1
}
