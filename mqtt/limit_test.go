package mqtt

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// streamConn is a connection from which given bytes come.
type streamConn struct {
	net.Conn
	io.Reader
}

func (s streamConn) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func publishPacket(topic string, qos byte, size int) []byte {
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Qos, p.MessageID, p.Payload = topic, qos, 77, bytes.Repeat([]byte{'x'}, size)
	var b bytes.Buffer
	p.Write(&b)
	return b.Bytes()
}

func TestLimitPassesWhatFits(t *testing.T) {
	in := append(publishPacket("a/b", 1, 1000), 0xd0, 0) // and a PINGRESP
	in = append(in, publishPacket("c", 0, 0)...)
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(in), "byte by byte": iotest.OneByteReader(bytes.NewReader(in))} {
		out, err := io.ReadAll(limit(streamConn{Reader: r}, 1000))
		if err != nil || !bytes.Equal(out, in) {
			t.Errorf("%s: %d bytes become %d, %v", name, len(in), len(out), err)
		}
	}
}

func TestLimitShortensWhatDoesNotFit(t *testing.T) {
	const most = 1000
	topic := string(bytes.Repeat([]byte{'t'}, mostTopic))
	for _, size := range []int{most + 1, most + mostTopic + 6, 200_000, 20 << 20} {
		for _, topic := range []string{"a", topic} {
			in := append(publishPacket(topic, 1, size), 0xd0, 0)
			conn := limit(streamConn{Reader: bytes.NewReader(in)}, most)
			first, err := packets.ReadPacket(conn)
			if err != nil {
				t.Fatal(err)
			}
			p := first.(*packets.PublishPacket)
			if p.TopicName != topic || p.MessageID != 77 || len(p.Payload) <= most || len(p.Payload) > most+mostTopic+5 {
				t.Errorf("%d bytes on a topic of %d become %d, as message %d", size, len(topic), len(p.Payload), p.MessageID)
			}
			if second, err := packets.ReadPacket(conn); err != nil || second.(*packets.PingrespPacket) == nil {
				t.Errorf("after it: %v, %v", second, err)
			}
		}
	}
}

func TestLimitRefusesMalformedHeads(t *testing.T) {
	for _, in := range []string{"\x30\xff\xff\xff\xff\x01", "\x90\xff\xff\xff\x7f", "\x30", "\x30\xff", "\x30\x05ab"} {
		if _, err := packets.ReadPacket(limit(streamConn{Reader: bytes.NewReader([]byte(in))}, 100)); err == nil {
			t.Errorf("% x passes", in)
		}
	}
}

func FuzzLimit(f *testing.F) {
	f.Add(publishPacket("a", 1, 10), 5)
	f.Add([]byte("\x30\xff\xff\x7f"), 100)
	f.Fuzz(func(t *testing.T, in []byte, most int) {
		most &= 0xfff
		out, err := io.ReadAll(limit(streamConn{Reader: bytes.NewReader(in)}, most))
		again, err2 := io.ReadAll(limit(streamConn{Reader: bytes.NewReader(out)}, most))
		if len(out) > len(in) || err == nil && (err2 != nil || !bytes.Equal(again, out)) {
			t.Errorf("% x becomes % x, %v; and that % x, %v", in, out, err, again, err2)
		}
	})
}
