package sim

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"periph.io/x/conn/v3/i2c"

	"hilgate/model/link"
)

// Flags of struct i2c_msg (linux/i2c.h).
const (
	msgRead = 0x0001 // I2C_M_RD
	msgTen  = 0x0010 // I2C_M_TEN: a ten-bit address
)

// What I2C_FUNCS answers (linux/i2c.h): plain I²C, the SMBus transactions that the kernel makes of it, and
// PEC.
const (
	funcsBroadcom = 0x0eff0009
	funcsBitBang  = funcsBroadcom | 0x01000000 // I2C_FUNC_SMBUS_READ_BLOCK_DATA
)

// message is one struct i2c_msg with its bytes.
type message struct {
	addr, flags uint16
	buf         []byte
}

// adapter does what i2c-core and an adapter's driver do with messages.
type adapter struct {
	bus     i2c.Bus
	options NodeOptions
	mu      sync.Mutex // one transfer at a time
}

func (a *adapter) funcs() uint64 {
	if a.options.Adapter == BitBang {
		return funcsBitBang
	}
	return funcsBroadcom
}

// transfer does a sequence of messages under one start and stop, and returns how many were done, or an
// errno. A write that is followed by a read at the same address is one transaction of the device.
func (a *adapter) transfer(msgs []message) (done int, errno syscall.Errno) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, m := range msgs {
		if m.flags&^(msgRead|msgTen) != 0 ||
			a.options.Adapter != BitBang && m.flags&msgRead != 0 && i < len(msgs)-1 {
			return 0, unix.EOPNOTSUPP
		}
	}
	for i := 0; i < len(msgs); {
		m := msgs[i]
		i++
		if m.flags&msgTen != 0 {
			return 0, a.errno(link.NACK) // nobody here has such an address
		}
		w, r := m.buf, []byte(nil)
		if m.flags&msgRead != 0 {
			w, r = nil, m.buf
		} else if i < len(msgs) && msgs[i].flags == msgRead && msgs[i].addr == m.addr {
			r = msgs[i].buf
			i++
		}
		start := time.Now()
		err := a.bus.Tx(m.addr, w, r)
		if a.options.Clock > 0 {
			time.Sleep(WireTime(a.options.Clock, len(w), len(r)) - time.Since(start))
		}
		if err != nil {
			return 0, a.errno(err)
		}
	}
	return len(msgs), 0
}

// errno is what the adapter's driver says about a failure.
func (a *adapter) errno(err error) syscall.Errno {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	switch link.KindOf(err) {
	case link.NACK:
		if a.options.Adapter == BitBang {
			return unix.ENXIO
		}
		return unix.EREMOTEIO
	case link.Timeout:
		return unix.ETIMEDOUT
	case link.Arbitration:
		return unix.EAGAIN
	case link.Stuck:
		return unix.EBUSY
	case link.Closed:
		return unix.ENODEV
	}
	return unix.EIO
}

// Sizes of an SMBus transaction (linux/i2c.h), and the most data of a block (SMBus 2.0, §5.5.7).
const (
	smbusQuick = iota
	smbusByte
	smbusByteData
	smbusWordData
	smbusProcCall
	smbusBlockData
	smbusI2CBlockBroken // as smbusI2CBlockData, whose read always has the full length
	smbusBlockProcCall
	smbusI2CBlockData

	blockMax = 32
)

// smbusData is union i2c_smbus_data: a byte, a word (low byte first), or a block that begins with its length.
type smbusData [blockMax + 2]byte

// smbusSize is how many bytes of smbusData a transaction uses; ok is false for an unknown one.
func smbusSize(size uint32, read bool) (n int, ok bool) {
	switch size {
	case smbusQuick:
		return 0, true
	case smbusByte:
		if !read {
			return 0, true // the byte is the command itself
		}
		return 1, true
	case smbusByteData:
		return 1, true
	case smbusWordData, smbusProcCall:
		return 2, true
	case smbusBlockData, smbusI2CBlockBroken, smbusBlockProcCall, smbusI2CBlockData:
		return len(smbusData{}), true
	}
	return 0, false
}

// smbus does one SMBus transaction by plain messages, as the kernel does where an adapter knows only those
// (i2c_smbus_xfer_emulated). Results are left in data.
func (a *adapter) smbus(addr uint16, ten, pec, read bool, command byte, size uint32, data *smbusData) syscall.Errno {
	flags := uint16(0)
	if ten {
		flags = msgTen
	}
	out := []byte{command}
	in := 0 // bytes to read
	block := false
	switch size {
	case smbusQuick:
		if read {
			flags |= msgRead
		}
		_, errno := a.transfer([]message{{addr: addr, flags: flags}})
		return errno
	case smbusByte:
		if read {
			out, in = nil, 1
		}
	case smbusByteData:
		if in = 1; !read {
			out, in = append(out, data[0]), 0
		}
	case smbusWordData:
		if in = 2; !read {
			out, in = append(out, data[0], data[1]), 0
		}
	case smbusProcCall:
		out, in = append(out, data[0], data[1]), 2
	case smbusBlockData, smbusBlockProcCall:
		if size == smbusBlockProcCall || !read {
			if data[0] > blockMax {
				return unix.EINVAL
			}
			out = append(out, data[:1+data[0]]...)
		}
		if read || size == smbusBlockProcCall {
			if a.options.Adapter != BitBang {
				return unix.EOPNOTSUPP
			}
			block, in = true, 1+blockMax
		}
	case smbusI2CBlockData:
		if data[0] > blockMax || data[0] == 0 {
			return unix.EINVAL
		}
		if in = int(data[0]); !read {
			out, in = append(out, data[1:1+data[0]]...), 0
		}
	}
	checked := pec && size != smbusI2CBlockData
	sum := byte(0)
	if out != nil {
		sum = crc8(crc8(0, byte(addr<<1)), out...)
	}
	if checked {
		if in == 0 {
			out = append(out, sum)
		} else {
			in++
		}
	}
	var msgs []message
	if out != nil {
		msgs = append(msgs, message{addr, flags, out})
	}
	answer := make([]byte, in)
	if in > 0 {
		msgs = append(msgs, message{addr, flags | msgRead, answer})
	}
	if _, errno := a.transfer(msgs); errno != 0 {
		return errno
	}
	if in == 0 {
		return 0
	}
	if block { // the bytes after the block were read for nothing
		length := int(answer[0])
		if length == 0 || length > blockMax {
			return unix.EPROTO
		}
		if in = 1 + length; checked {
			in++
		}
		answer = answer[:in]
	}
	if checked {
		in--
		if crc8(crc8(sum, byte(addr<<1|1)), answer[:in]...) != answer[in] {
			return unix.EBADMSG
		}
	}
	if size == smbusI2CBlockData {
		copy(data[1:], answer[:in])
	} else {
		copy(data[:], answer[:in])
	}
	return 0
}

// crc8 goes on with an SMBus packet error code (SMBus 2.0, §5.4.1.3): polynomial x⁸+x²+x+1.
func crc8(sum byte, bytes ...byte) byte {
	for _, b := range bytes {
		sum ^= b
		for range 8 {
			carry := sum & 0x80
			if sum <<= 1; carry != 0 {
				sum ^= 0x07
			}
		}
	}
	return sum
}
