package roboclaw

import (
	"errors"
	"fmt"
	"io"
	"time"

	"hilgate/model/link"
)

// quietGap is the pause inside a packet after which the unit forgets what it has of it.
const quietGap = 10 * time.Millisecond

// babble is how many bytes may come without a pause before the line counts as one that never falls silent.
const babble = 512

var errBabble = fmt.Errorf("the line does not fall silent: %w", link.Malformed)

// client does one exchange at a time with the unit at one address. A request is one Write. After any
// failure the next request waits until a Read finds the line silent for the port's read timeout, which is
// longer than quietGap: then the unit has forgotten half a packet, and no byte of a late reply is left.
type client struct {
	port     io.ReadWriter
	drop     func() error // discards input, without a wait; nil if the port cannot
	counters *link.Counters
	addr     byte
	firmware Firmware

	suspect suspicion
	tx      []byte
	rx      []byte
	values  [maxValues]int64
}

// suspicion is what may be wrong with the line after the last exchange.
type suspicion uint8

const (
	trusted suspicion = iota
	silent            // a reply failed to come: the pause is kept, but the reply may come yet
	noisy             // wrong bytes came, and more may be on their way
)

func newClient(port io.ReadWriter, addr byte) client {
	c := client{
		port: port, counters: link.Of(port), addr: addr,
		tx: make([]byte, 0, maxPacket), rx: make([]byte, 0, 2*maxReply),
		suspect: silent, // something may have come in before the port was opened
	}
	if d, ok := port.(interface{ ResetInputBuffer() error }); ok {
		c.drop = d.ResetInputBuffer
	}
	return c
}

// wait sets how long a Read of the port waits, if the port can be told.
func (c *client) wait(d time.Duration) error {
	if t, ok := c.port.(interface{ SetReadTimeout(time.Duration) error }); ok {
		return t.SetReadTimeout(d)
	}
	return nil
}

// ask sends a command and returns the values of its reply, which hold until the next exchange. The error
// says the command, and is one of package link's kinds.
func (c *client) ask(command Command, args ...int64) ([]int64, error) {
	if err := c.send(command, args...); err != nil {
		return nil, c.failed(command, err)
	}
	form := command.form(c.firmware)
	want := 1
	if !form.write {
		want = size(form.reply) + 2
	}
	if err := c.receive(want); err != nil {
		return nil, c.failed(command, err)
	}
	n, err := ParseReply(c.values[:], c.firmware, c.tx, c.rx)
	if err != nil {
		return nil, c.failed(command, err)
	}
	return c.values[:n], nil
}

// version reads the text of the firmware's version.
func (c *client) version() (string, error) {
	if err := c.send(GetVersion); err != nil {
		return "", c.failed(GetVersion, err)
	}
	for {
		text, n, err := ParseVersion(c.tx, c.rx)
		switch {
		case err == nil && n > 0 && n < len(c.rx):
			err = ErrSurplus
		case err == nil && n > 0:
			return text, nil
		case err == nil:
			err = c.receive(len(c.rx) + 1)
		}
		if err != nil {
			return "", c.failed(GetVersion, err)
		}
	}
}

// generation reads the status and finds out from the length of the reply which firmware answers, so that
// the client speaks to it from now on. It costs old firmware one read timeout.
func (c *client) generation() (Status, error) {
	c.firmware = Modern
	if err := c.send(GetStatus); err != nil {
		return Status{}, c.failed(GetStatus, err)
	}
	err := c.receive(size(GetStatus.form(Modern).reply) + 2)
	if errors.Is(err, link.Timeout) {
		if n, old := ParseReply(c.values[:], Old, c.tx, c.rx); old == nil && n > 0 {
			c.firmware = Old
			return Status{Word: uint32(c.values[0]), Firmware: Old}, nil
		}
	}
	if err == nil {
		_, err = ParseReply(c.values[:], Modern, c.tx, c.rx)
	}
	if err != nil {
		return Status{}, c.failed(GetStatus, err)
	}
	return Status{Word: uint32(c.values[0])}, nil
}

// send puts a request on a line that is in order.
func (c *client) send(command Command, args ...int64) error {
	if err := c.settle(); err != nil {
		return err
	}
	var err error
	if c.tx, err = AppendRequest(c.tx[:0], c.firmware, c.addr, command, args...); err != nil {
		return err
	}
	// The CRC tells a stale reply from the one to a read; nothing tells a stale 0xff from an acknowledgement.
	if c.drop != nil && command.form(c.firmware).write {
		if err := c.drop(); err != nil {
			return err
		}
	}
	c.rx = c.rx[:0]
	n, err := c.port.Write(c.tx)
	if err == nil && n < len(c.tx) {
		err = fmt.Errorf("%w: %w", io.ErrShortWrite, link.IO)
	}
	return err
}

// receive reads until at least n bytes of the reply are there. What came beyond them stays in rx.
func (c *client) receive(n int) error {
	for len(c.rx) < n {
		got, err := c.port.Read(c.rx[len(c.rx):cap(c.rx)])
		c.rx = c.rx[:len(c.rx)+got]
		if err == nil && got == 0 {
			err = link.Timeout
		}
		if err != nil && len(c.rx) < n {
			return err
		}
	}
	return nil
}

// settle brings the line into order after a failure.
func (c *client) settle() error {
	switch {
	case c.suspect == trusted:
		return nil
	case c.suspect == silent && c.drop != nil:
		c.suspect = trusted
		return c.drop()
	}
	for got := 0; got < babble; {
		n, err := c.port.Read(c.rx[:cap(c.rx)])
		if errors.Is(err, link.Timeout) || err == nil && n == 0 {
			c.suspect = trusted
			return nil
		}
		if err != nil {
			return err
		}
		got += n
	}
	return errBabble
}

// failed marks the line, counts what the client itself found wrong (the port counts the rest), and says
// which command it was.
func (c *client) failed(command Command, err error) error {
	c.suspect = noisy
	switch {
	case errors.Is(err, link.Timeout):
		c.suspect = silent
	case errors.Is(err, link.CRC), errors.Is(err, link.Malformed), errors.Is(err, link.Short):
		c.counters.Failed(err)
	}
	return fmt.Errorf("%v: %w", command, err)
}
