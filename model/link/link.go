// Package link names what goes wrong on a wire and counts what goes over it.
//
// Every driver, bus and simulator reports a failed exchange as an error that is, by errors.Is, one of the
// kinds below. So a retry is decided, a counter is raised and a metric is labelled by the same word.
package link

import (
	"errors"
	"sync/atomic"
)

// Kind says how an exchange failed. A Kind is an error, to be wrapped with %w.
type Kind uint8

const (
	NACK        Kind = iota // the device did not acknowledge its address or a byte
	PEC                     // an SMBus packet error code did not match
	CRC                     // a checksum of a serial protocol did not match
	Timeout                 // nothing, or not enough, came before the deadline
	Short                   // fewer bytes than the protocol wants, or a length that it does not allow
	Malformed               // bytes arrived whole but break the protocol (a wrong echo, a bad acknowledgement)
	Arbitration             // another master won the bus
	Stuck                   // the bus is held low, or the adapter hangs
	IO                      // the port or the adapter itself failed
	Closed                  // the port is gone, or was closed
	Implausible             // the frame was sound, its content cannot be true
	Refused                 // the device answered that it will not
	kinds
)

var kindNames = [kinds]string{
	"nack", "pec", "crc", "timeout", "short", "malformed",
	"arbitration", "stuck", "io", "closed", "implausible", "refused",
}

// Kinds lists every kind, so that a counter of each exists before the first failure.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String is the name of the kind, as metrics label it: "nack".
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return "unknown"
}

var kindTexts = [kinds]string{
	"no acknowledgement", "PEC mismatch", "checksum mismatch", "timeout", "short answer", "malformed answer",
	"arbitration lost", "bus stuck", "input/output error", "port closed", "implausible value", "refused by the device",
}

// Error is the text of the kind for people.
func (k Kind) Error() string {
	if k < kinds {
		return kindTexts[k]
	}
	return "unknown link failure"
}

// KindOf finds the kind in err's chain; an error without one counts as IO.
func KindOf(err error) Kind {
	if k, ok := errors.AsType[Kind](err); ok {
		return k
	}
	for k := range kinds { // errors that match a kind by an Is method, such as one that holds an errno
		if errors.Is(err, k) {
			return k
		}
	}
	return IO
}

// Lost reports whether err means that the port itself is gone, so that only opening it anew can help.
func Lost(err error) bool {
	return errors.Is(err, Closed) || errors.Is(err, IO)
}

// Counters counts what went over one link. The owner of the link writes, anyone may read at any time.
type Counters struct {
	transactions, retries, readBytes, writtenBytes, opens atomic.Uint64
	failures                                              [kinds]atomic.Uint64

	// Took, if set before first use, is told how many seconds each transaction took.
	Took func(seconds float64)
}

// Exchanged counts one transaction that wrote and read so many bytes, in so many seconds.
func (c *Counters) Exchanged(written, read int, seconds float64) {
	c.transactions.Add(1)
	c.writtenBytes.Add(uint64(written))
	c.readBytes.Add(uint64(read))
	if c.Took != nil {
		c.Took(seconds)
	}
}

// Failed counts a failed exchange by its kind. A nil error is not counted.
func (c *Counters) Failed(err error) {
	if err != nil {
		c.failures[KindOf(err)].Add(1)
	}
}

// Retried counts one repetition of an exchange.
func (c *Counters) Retried() { c.retries.Add(1) }

// Opened counts one opening of the port: the first, and each after a loss.
func (c *Counters) Opened() { c.opens.Add(1) }

// Counts is a copy of the counters at one moment.
type Counts struct {
	Transactions, Retries, ReadBytes, WrittenBytes, Opens uint64
	Failures                                              [kinds]uint64 // by Kind
}

// Counts returns a copy. The fields may be a transaction apart from each other.
func (c *Counters) Counts() Counts {
	n := Counts{
		Transactions: c.transactions.Load(), Retries: c.retries.Load(),
		ReadBytes: c.readBytes.Load(), WrittenBytes: c.writtenBytes.Load(), Opens: c.opens.Load(),
	}
	for i := range n.Failures {
		n.Failures[i] = c.failures[i].Load()
	}
	return n
}

// Of returns the counters of a bus or port that carries them (by a method Counters), or else fresh ones,
// so that a driver can count without asking who listens.
func Of(bus any) *Counters {
	if b, ok := bus.(interface{ Counters() *Counters }); ok {
		return b.Counters()
	}
	return new(Counters)
}
