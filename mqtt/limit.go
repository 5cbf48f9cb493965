package mqtt

import (
	"bufio"
	"errors"
	"io"
	"net"
	"time"
)

// limitedConn shortens PUBLISH packets that are too long before anyone makes room for them.
//
// A broker passes messages of up to 256 MB on, and the client library reads each whole into memory. Here
// such a packet keeps its topic and packet identifier, so that it is acknowledged like any other, and so
// much of its payload that the payload is still seen to be beyond the limit; the rest is thrown away as it
// comes. Layout of a packet (MQTT 3.1.1, 2.2 and 3.3): type and flags, one byte; remaining length, one to
// four bytes of seven bits, the lowest first; then, of a PUBLISH, topic length (two bytes), topic, packet
// identifier (two bytes if QoS > 0), payload.
type limitedConn struct {
	net.Conn
	in      *bufio.Reader
	most    int    // remaining length that is passed on
	head    []byte // of a packet, to be passed on
	buf     [5]byte
	pass    int // bytes of the packet still to be passed on
	discard int // bytes after those to be thrown away
}

const (
	packetPublish = 3     // MQTT 3.1.1, table 2.1
	mostTopic     = 65535 // bytes, by its length field
)

// errTooLong is a packet without payload that is longer than any can be.
var errTooLong = errors.New("mqtt: the broker sent a malformed packet")

// limit bounds the payloads that come in over conn.
func limit(conn net.Conn, payload int) net.Conn {
	return &limitedConn{Conn: conn, in: bufio.NewReader(conn), most: payload + mostTopic + 5}
}

func (c *limitedConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.head) == 0 && c.pass == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	n, err := c.in.Read(p[:min(len(p), c.pass)])
	c.pass -= n
	return n, err
}

// Write writes within a bounded time. The library bounds only the writing of PUBLISH packets.
func (c *limitedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// next reads the head of the next packet.
func (c *limitedConn) next() error {
	for c.discard > 0 {
		n, err := c.in.Discard(min(c.discard, c.in.Size()))
		c.discard -= n
		if err != nil {
			return err
		}
	}
	first, err := c.in.ReadByte()
	if err != nil {
		return err
	}
	length := 0
	for shift := 0; ; shift += 7 {
		b, err := c.in.ReadByte()
		if err != nil {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		length |= int(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		if shift == 21 {
			return errTooLong
		}
	}
	c.pass = length
	if length > c.most {
		if first>>4 != packetPublish {
			return errTooLong
		}
		c.pass, c.discard = c.most, length-c.most
	}
	c.head = append(c.buf[:0], first)
	for n := c.pass; ; {
		b := byte(n & 0x7f)
		if n >>= 7; n > 0 {
			b |= 0x80
		}
		c.head = append(c.head, b)
		if n == 0 {
			return nil
		}
	}
}
