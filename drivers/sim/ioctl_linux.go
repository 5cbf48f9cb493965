package sim

import (
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// Requests of linux/i2c-dev.h, and the limits of its driver.
const (
	i2cRetries    = 0x0701
	i2cTimeout    = 0x0702
	i2cSlave      = 0x0703
	i2cTenbit     = 0x0704
	i2cFuncs      = 0x0705
	i2cSlaveForce = 0x0706
	i2cRdwr       = 0x0707
	i2cPEC        = 0x0708
	i2cSMBus      = 0x0720

	maxMessages = 42   // I2C_RDWR_IOCTL_MAX_MSGS
	maxMessage  = 8192 // bytes of one message
)

// memory is that of the thread that made a request. narrow is a 32-bit caller, whose pointers have 4 bytes.
type memory struct {
	pid    int
	narrow bool
}

func (m memory) read(at uint64, b []byte) syscall.Errno {
	if len(b) == 0 {
		return 0
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	got, err := unix.ProcessVMReadv(m.pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	return fault(got, len(b), err)
}

func (m memory) write(at uint64, b []byte) syscall.Errno {
	if len(b) == 0 {
		return 0
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	put, err := unix.ProcessVMWritev(m.pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	return fault(put, len(b), err)
}

func fault(n, want int, err error) syscall.Errno {
	if err != nil || n != want {
		return unix.EFAULT
	}
	return 0
}

// pointer reads a pointer of the caller from b.
func (m memory) pointer(b []byte) uint64 {
	if m.narrow {
		return uint64(le.Uint32(b))
	}
	return le.Uint64(b)
}

// width is the size of a pointer of the caller.
func (m memory) width() int {
	if m.narrow {
		return 4
	}
	return 8
}

// ioctl is i2cdev_ioctl of the kernel's drivers/i2c/i2c-dev.c.
func (n *Node) ioctl(c *client, m memory, request uint32, arg uint64) (result int, errno syscall.Errno) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch request {
	case i2cSlave, i2cSlaveForce:
		if arg > 0x3ff || !c.ten && arg > 0x7f {
			return 0, unix.EINVAL
		}
		c.addr = uint16(arg)
		return 0, 0
	case i2cTenbit:
		c.ten = arg != 0
		return 0, 0
	case i2cPEC:
		c.pec = arg != 0
		return 0, 0
	case i2cRetries, i2cTimeout:
		if arg > math.MaxInt32 {
			return 0, unix.EINVAL
		}
		return 0, 0 // the faults alone say how long a transfer hangs
	case i2cFuncs:
		b := le.AppendUint64(nil, n.adapter.funcs())
		return 0, m.write(arg, b[:m.width()])
	case i2cRdwr:
		return n.rdwr(m, arg)
	case i2cSMBus:
		return 0, n.smbus(c, m, arg)
	}
	return 0, unix.ENOTTY
}

// rdwr reads {msgs pointer; u32 nmsgs} and nmsgs times {u16 addr, flags, len; pad; buf pointer at 8}, does
// the messages and hands out what was read.
func (n *Node) rdwr(m memory, arg uint64) (done int, errno syscall.Errno) {
	head := make([]byte, 2*m.width())
	if errno := m.read(arg, head); errno != 0 {
		return 0, errno
	}
	count := le.Uint32(head[m.width():])
	if count == 0 || count > maxMessages || m.pointer(head) == 0 {
		return 0, unix.EINVAL
	}
	size := 8 + m.width()
	table := make([]byte, int(count)*size)
	if errno := m.read(m.pointer(head), table); errno != 0 {
		return 0, errno
	}
	msgs := make([]message, count)
	for i := range msgs {
		entry := table[i*size:]
		length := le.Uint16(entry[4:])
		if length > maxMessage {
			return 0, unix.EINVAL
		}
		msgs[i] = message{le.Uint16(entry), le.Uint16(entry[2:]), make([]byte, length)}
		if msgs[i].flags&msgRead == 0 {
			if errno := m.read(m.pointer(entry[8:]), msgs[i].buf); errno != 0 {
				return 0, errno
			}
		}
	}
	if done, errno = n.adapter.transfer(msgs); errno != 0 {
		return 0, errno
	}
	for i := range msgs {
		if msgs[i].flags&msgRead == 0 {
			continue
		}
		if errno := m.write(m.pointer(table[i*size+8:]), msgs[i].buf); errno != 0 {
			return 0, errno
		}
	}
	return done, 0
}

// smbus reads {u8 read_write, u8 command, u32 size at 4, data pointer at 8} and does that transaction.
func (n *Node) smbus(c *client, m memory, arg uint64) syscall.Errno {
	head := make([]byte, 8+m.width())
	if errno := m.read(arg, head); errno != 0 {
		return errno
	}
	size, at := le.Uint32(head[4:]), m.pointer(head[8:])
	read := head[0] == 1
	length, ok := smbusSize(size, read)
	if !ok || head[0] > 1 || length > 0 && at == 0 {
		return unix.EINVAL
	}
	var data smbusData
	call := size == smbusProcCall || size == smbusBlockProcCall
	if !read || call || size == smbusI2CBlockData {
		if errno := m.read(at, data[:length]); errno != 0 {
			return errno
		}
	}
	if size == smbusI2CBlockBroken {
		if size = smbusI2CBlockData; read {
			data[0] = blockMax
		}
	}
	if errno := n.adapter.smbus(c.addr, c.ten, c.pec, read, head[1], size, &data); errno != 0 {
		return errno
	}
	if read || call {
		return m.write(at, data[:length])
	}
	return 0
}
