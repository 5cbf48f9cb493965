package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of what the parsers read. A client's own limit on payloads is usually far lower.
const (
	MaxPayload = 8 << 20 // bytes of a text
	MaxDepth   = 16      // arrays and objects within each other
)

// Errors of the parsers. They are wrapped with the place in the text.
var (
	ErrTooLarge  = errors.New("payload too large")
	ErrSyntax    = errors.New("not a JSON text")
	ErrTooDeep   = errors.New("nested too deeply")
	ErrTooMany   = errors.New("too many elements")
	ErrWrongKind = errors.New("wrong kind of value")
	ErrRange     = errors.New("number out of range")
)

// check refuses b unless it is one JSON text within the bounds. What passes can be walked by a cursor.
func check(b []byte) error {
	if len(b) > MaxPayload {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(b), MaxPayload)
	}
	if err := checkDepth(b); err != nil {
		return err
	}
	if !utf8.Valid(b) { // RFC 8259, §8.1; encoding/json would let it pass within a string
		return fmt.Errorf("%w: not UTF-8", ErrSyntax)
	}
	if !json.Valid(b) {
		var any json.RawMessage
		err := json.Unmarshal(b, &any) // says where
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			return fmt.Errorf("%w: byte %d: %s", ErrSyntax, s.Offset, s.Error())
		}
		return ErrSyntax
	}
	return nil
}

// checkDepth counts brackets outside strings, which is right for every valid text.
func checkDepth(b []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("%w: byte %d, at most %d levels", ErrTooDeep, i+1, MaxDepth)
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return nil
}

// pathError is an error with the member or element that it is about.
type pathError struct {
	path string // "points[3].positions[1]"
	err  error
}

func (e *pathError) Error() string { return e.path + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

// at puts one more step before the path of err: a member's name, or an element's "[3]".
func at(step string, err error) error {
	e, ok := err.(*pathError) //nolint:errorlint // only an error of this very package's making is extended
	switch {
	case !ok:
		return &pathError{step, err}
	case strings.HasPrefix(e.path, "["):
		e.path = step + e.path
	default:
		e.path = step + "." + e.path
	}
	return e
}

// cursor walks a text that check has passed; so it need not look for faults of syntax.
type cursor struct {
	b []byte
	i int
}

func walk(b []byte) *cursor { return &cursor{b: b} }

// peek returns the first byte of the next token.
func (c *cursor) peek() byte {
	for {
		switch b := c.b[c.i]; b {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return b
		}
	}
}

// text takes a string and returns what stands between its quotes, escapes and all.
func (c *cursor) text() []byte {
	c.i++
	from := c.i
	for c.b[c.i] != '"' {
		if c.b[c.i] == '\\' {
			c.i++
		}
		c.i++
	}
	c.i++
	return c.b[from : c.i-1]
}

// skip takes the next value, whatever it is, and returns its bytes.
func (c *cursor) skip() []byte {
	first := c.peek()
	from := c.i
	switch first {
	case '"':
		c.text()
	case '[', '{':
		for depth := 0; ; {
			switch c.b[c.i] {
			case '"':
				c.text()
				continue
			case '[', '{':
				depth++
			case ']', '}':
				depth--
			}
			if c.i++; depth == 0 {
				return c.b[from:c.i]
			}
		}
	default:
		for c.i < len(c.b) && !strings.ContainsRune(",]} \t\r\n", rune(c.b[c.i])) {
			c.i++
		}
	}
	return c.b[from:c.i]
}

// kind names the next value, for an error.
func (c *cursor) kind() string {
	switch c.peek() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func (c *cursor) wrong(want string) error {
	return fmt.Errorf("%w: %s, want %s", ErrWrongKind, c.kind(), want)
}

// null takes a null and reports whether there was one.
func (c *cursor) null() bool {
	if c.peek() != 'n' {
		return false
	}
	c.skip()
	return true
}

// object calls member for each member of the next object; member must take its value. A null has none.
func (c *cursor) object(member func(key []byte) error) error {
	if c.null() {
		return nil
	}
	if c.peek() != '{' {
		return c.wrong("an object")
	}
	c.i++
	for first := true; c.peek() != '}'; first = false {
		if !first {
			c.i++ // the comma
			c.peek()
		}
		key := unescape(c.text())
		c.peek()
		c.i++ // the colon
		if err := member(key); err != nil {
			return at(clip(key), err)
		}
	}
	c.i++
	return nil
}

// array calls element for each element of the next array, at most most times; element must take its value.
// A null has none.
func (c *cursor) array(most int, element func(i int) error) error {
	if c.null() {
		return nil
	}
	if c.peek() != '[' {
		return c.wrong("an array")
	}
	c.i++
	for i := 0; c.peek() != ']'; i++ {
		if i == most {
			return fmt.Errorf("%w: at most %d", ErrTooMany, most)
		}
		if i > 0 {
			c.i++ // the comma
		}
		if err := element(i); err != nil {
			return at("["+strconv.Itoa(i)+"]", err)
		}
	}
	c.i++
	return nil
}

// string takes a string of at most most bytes.
func (c *cursor) string(most int) (string, error) {
	if c.peek() != '"' {
		return "", c.wrong("a string")
	}
	s := unescape(c.text())
	if len(s) > most {
		return "", fmt.Errorf("%w: %d bytes of text, at most %d", ErrRange, len(s), most)
	}
	return string(s), nil
}

// integer takes a whole number, or, as protobuf writes 64-bit ones, its text in quotes.
func (c *cursor) integer() (int64, error) {
	var raw []byte
	switch b := c.peek(); {
	case b == '"':
		raw = c.text()
	case b == '-' || b >= '0' && b <= '9':
		raw = c.skip()
	default:
		return 0, c.wrong("a whole number")
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%w: %s", ErrRange, clip(raw))
	case err != nil:
		return 0, fmt.Errorf("%w: %s is no whole number", ErrWrongKind, clip(raw))
	}
	return n, nil
}

// float takes a number. null and the strings "NaN" and "nan" are NaN; "Infinity" and "-Infinity", as
// protobuf writes them, are infinite.
func (c *cursor) float() (float64, error) {
	switch b := c.peek(); {
	case b == 'n':
		c.skip()
		return math.NaN(), nil
	case b == '"':
		switch s := c.text(); string(s) {
		case "NaN", "nan":
			return math.NaN(), nil
		case "Infinity":
			return math.Inf(1), nil
		case "-Infinity":
			return math.Inf(-1), nil
		default:
			return 0, fmt.Errorf("%w: %q is no number", ErrWrongKind, clip(s))
		}
	case b == '-' || b >= '0' && b <= '9':
		raw := c.skip()
		x, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %s", ErrRange, clip(raw))
		}
		return x, nil
	}
	return 0, c.wrong("a number")
}

// unescape resolves the escapes of a string's inside.
func unescape(raw []byte) []byte {
	for _, b := range raw {
		if b == '\\' {
			var s string
			quoted := append(append([]byte{'"'}, raw...), '"')
			if json.Unmarshal(quoted, &s) != nil {
				return raw
			}
			return []byte(s)
		}
	}
	return raw
}

// clip shortens a foreign text to what an error can carry.
func clip(text []byte) string {
	const most = 32
	if len(text) <= most {
		return strings.ToValidUTF8(string(text), "?")
	}
	return strings.ToValidUTF8(string(text[:most]), "?") + "…"
}
