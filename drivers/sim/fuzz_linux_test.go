package sim

import (
	"testing"

	"golang.org/x/sys/unix"
)

func FuzzSMBusRequest(f *testing.F) {
	for size := range uint32(10) {
		f.Add(size, true, true, byte(9), []byte{2, 1, 2})
		f.Add(size, false, false, byte(9), []byte{33})
	}
	bus := NewBus(NewBench(nil), "fuzz")
	bus.Attach(0x0b, new(registers))
	a := &adapter{bus: bus, options: NodeOptions{Adapter: BitBang}}
	f.Fuzz(func(t *testing.T, size uint32, read, pec bool, command byte, b []byte) {
		var data smbusData
		copy(data[:], b)
		if size == smbusI2CBlockBroken {
			return // made into another one before
		}
		if _, ok := smbusSize(size, read); !ok {
			return
		}
		if errno := a.smbus(0x0b, false, pec, read, command, size, &data); errno == 0 && size == smbusBlockData && read && data[0] > blockMax {
			t.Errorf("a block of %d bytes", data[0])
		}
	})
}

func FuzzFUSERequest(f *testing.F) {
	f.Add(uint32(fuseInit), []byte{})
	f.Add(uint32(fuseIoctl), make([]byte, 32))
	f.Add(uint32(fuseRelease), make([]byte, 24))
	n := &Node{clients: map[uint64]*client{1: new(client)}, adapter: adapter{bus: NewBus(NewBench(nil), "fuzz")}}
	const nobody = 1 << 30 // no process has such a number, so that no memory is touched
	f.Fuzz(func(t *testing.T, opcode uint32, body []byte) {
		reply, errno := n.do(opcode, nobody, body)
		if opcode == fuseIoctl && len(body) >= 24 && le.Uint32(body[12:]) == i2cRdwr && errno == 0 {
			t.Error("a transfer without memory succeeded")
		}
		if errno != 0 && (len(reply) != 0 || errno > unix.EHWPOISON) {
			t.Errorf("errno %d with %d bytes", errno, len(reply))
		}
	})
}
