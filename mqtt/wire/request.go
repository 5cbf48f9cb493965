package wire

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// MaxID is the most bytes of a request's id, and of the other short texts of a request.
const (
	MaxID   = 64
	maxText = 256
)

// Request is the payload of a command. Either it is an envelope
//
//	{"id":"…","client":"…","args":{…},"ttl_ms":2000,"stamp_ns":…}
//
// whose members may all be left out and whose unknown members are ignored; or it is any other JSON text, as
// the simulator's users send it: then that text is the argument. An empty payload has no argument.
type Request struct {
	ID     string
	Client string        // on whose topic the answer goes; see Segment
	TTL    time.Duration // 0 is no bound
	Stamp  time.Time     // when it was sent, by the sender's clock; zero if it does not say

	// Of an emergency stop, either beside args or within.
	Reason, Source, Confirm string

	// Of the generic request topic, within args.
	Battery, Consumer string

	args []byte // a checked JSON text, or empty
}

// ParseRequest reads a command's payload.
func ParseRequest(b []byte) (Request, error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return Request{}, nil
	}
	if err := check(b); err != nil {
		return Request{}, err
	}
	return parseRequest(b)
}

// parseRequest reads a checked payload.
func parseRequest(b []byte) (Request, error) {
	r := Request{args: b}
	if b[0] != '{' {
		return r, nil
	}
	var args []byte
	c := walk(b)
	err := c.object(func(key []byte) (err error) {
		switch string(key) {
		case "id":
			r.ID, err = c.name(MaxID)
		case "client":
			r.Client, err = c.name(maxText)
		case "ttl_ms":
			r.TTL, err = c.milliseconds()
		case "stamp_ns":
			var ns int64
			if ns, err = c.integer(); err == nil && ns != 0 {
				r.Stamp = time.Unix(0, ns)
			}
		case "args":
			args = c.skip()
		default:
			return r.member(c, key)
		}
		return err
	})
	if err != nil {
		return r, err
	}
	if args != nil {
		r.args = args
		if c := walk(args); args[0] == '{' {
			if err := c.object(func(key []byte) error { return r.member(c, key) }); err != nil {
				return r, at("args", err)
			}
		}
	}
	return r, nil
}

// member reads what may stand beside args or within.
func (r *Request) member(c *cursor, key []byte) (err error) {
	switch string(key) {
	case "reason":
		r.Reason, err = c.name(maxText)
	case "source":
		r.Source, err = c.name(maxText)
	case "confirm":
		r.Confirm, err = c.name(MaxID)
	case "battery":
		r.Battery, err = c.name(maxText)
	case "consumer":
		r.Consumer, err = c.name(maxText)
	default:
		c.skip()
	}
	return err
}

// Empty reports whether there is no argument at all.
func (r *Request) Empty() bool { return len(r.args) == 0 }

// Bool reads the argument as gz.msgs.Boolean: {"data":true}, or true alone. A command that was sent for its
// own sake, with no argument or an object without data, is true.
func (r *Request) Bool() (bool, error) {
	value, ok := r.data()
	if !ok {
		return true, nil
	}
	switch string(value) {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, at("data", walk(value).wrong("a boolean"))
}

// Number reads the argument as gz.msgs.Double: {"data":12.5}, or 12.5 alone. It is finite.
func (r *Request) Number() (float64, error) {
	value, ok := r.data()
	if !ok {
		return 0, fmt.Errorf("data: %w: nothing, want a number", ErrWrongKind)
	}
	x, err := walk(value).float()
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = fmt.Errorf("%w: not finite", ErrRange)
	}
	if err != nil {
		return 0, at("data", err)
	}
	return x, nil
}

// data finds the argument's value: the member data of an object, or the argument itself.
func (r *Request) data() (value []byte, ok bool) {
	if r.Empty() {
		return nil, false
	}
	if r.args[0] != '{' {
		return r.args, true
	}
	c := walk(r.args)
	_ = c.object(func(key []byte) error { // a checked object is walked to its end
		if raw := c.skip(); string(key) == "data" {
			value = raw
		}
		return nil
	})
	return value, value != nil
}

// IsEcho reports whether a payload of a consumer's topic is the gateway's own (see AppendPowerLoad).
func IsEcho(b []byte) bool {
	r, err := ParseRequest(b)
	if err != nil || r.Empty() || r.args[0] != '{' {
		return false
	}
	echo := false
	c := walk(r.args)
	_ = c.object(func(key []byte) error {
		raw := c.skip()
		echo = echo || string(key) == "x_source" && string(raw) == `"gateway"`
		return nil
	})
	return echo
}

// name takes a short text, or a number as its digits. null is empty.
func (c *cursor) name(most int) (string, error) {
	switch b := c.peek(); {
	case b == 'n':
		c.skip()
		return "", nil
	case b >= '0' && b <= '9':
		raw := c.skip()
		if len(raw) > most {
			return "", fmt.Errorf("%w: %d digits, at most %d", ErrRange, len(raw), most)
		}
		return string(raw), nil
	}
	return c.string(most)
}

// milliseconds takes a span that is not negative.
func (c *cursor) milliseconds() (time.Duration, error) {
	x, err := c.float()
	switch {
	case err != nil:
		return 0, err
	case math.IsNaN(x):
		return 0, nil
	case x < 0 || x > float64(time.Hour/time.Millisecond)*24*365:
		return 0, fmt.Errorf("%w: %g ms", ErrRange, x)
	}
	return time.Duration(x * float64(time.Millisecond)), nil
}

// Phase says how far a request has come.
type Phase string

const (
	Accepted Phase = "accepted"
	Rejected Phase = "rejected"
	Running  Phase = "running"
	Done     Phase = "done"
	Failed   Phase = "failed"
	Expired  Phase = "expired"
)

// Ack is the answer to a request.
type Ack struct {
	ID      string
	Method  string
	Phase   Phase
	Code    int    // 0, or Reject.Code
	Message string // why not
	Result  []byte // a JSON text; nil is null
	Stamp   time.Time
}

// AppendAck appends the payload of an answer.
func AppendAck(dst []byte, a *Ack) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, a.ID)
	dst = append(dst, `,"method":`...)
	dst = appendString(dst, bounded(a.Method))
	dst = append(dst, `,"phase":`...)
	dst = appendString(dst, string(a.Phase))
	dst = append(dst, `,"code":`...)
	dst = strconv.AppendInt(dst, int64(a.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, a.Message)
	dst = append(dst, `,"result":`...)
	if a.Result == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, a.Result...)
	}
	dst = append(dst, `,"stamp_ns":`...)
	dst = strconv.AppendInt(dst, nanoseconds(a.Stamp), 10)
	return append(dst, '}')
}

// bounded cuts a foreign text to MaxID bytes, between characters.
func bounded(s string) string {
	if len(s) <= MaxID {
		return s
	}
	n := MaxID
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
