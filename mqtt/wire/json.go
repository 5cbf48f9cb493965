package wire

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// appendFloat appends x in the shortest form that reads back as x, or null if x is not finite.
func appendFloat(dst []byte, x float64) []byte { return appendNumber(dst, x, 64) }

// appendNarrow appends x as the nearest float32, so that 12.6 is written 12.6, or null if that is not finite.
func appendNarrow[Q ~float64](dst []byte, x Q) []byte {
	f := float32(x)
	// Most readings are whole thousandths of up to six digits. Two such decimals are never the same
	// float32, so if one reads back as f it is also the shortest that does.
	if n := math.Round(float64(f) * 1000); math.Abs(n) < 1e6 && float32(n/1000) == f {
		return appendThousandths(dst, int64(n))
	}
	return appendNumber(dst, float64(f), 32)
}

// appendMilli appends x rounded to three decimals, or null if x is not finite.
func appendMilli[Q ~float64](dst []byte, x Q) []byte {
	if n := math.Round(float64(x) * 1000); math.Abs(n) < 1<<53 {
		return appendThousandths(dst, int64(n))
	}
	return appendNumber(dst, float64(x), 64)
}

// appendThousandths appends n/1000 without trailing zeros.
func appendThousandths(dst []byte, n int64) []byte {
	if n < 0 {
		dst = append(dst, '-')
		n = -n
	}
	dst = strconv.AppendInt(dst, n/1000, 10)
	switch f := n % 1000; {
	case f == 0:
	case f%100 == 0:
		dst = append(dst, '.', '0'+byte(f/100))
	case f%10 == 0:
		dst = append(dst, '.', '0'+byte(f/100), '0'+byte(f/10%10))
	default:
		dst = append(dst, '.', '0'+byte(f/100), '0'+byte(f/10%10), '0'+byte(f%10))
	}
	return dst
}

func appendNumber(dst []byte, x float64, bits int) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return append(dst, "null"...)
	}
	format := byte('f')
	if abs := math.Abs(x); abs != 0 && (abs < 1e-6 || abs >= 1e21) { // as ECMAScript writes numbers
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, x, format, -1, bits)
	if n := len(dst); format == 'e' && dst[n-3] == '-' && dst[n-2] == '0' { // e-09 to e-9
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

const hex = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are not UTF-8 become the replacement character.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c < ' ' || c == '"' || c == '\\' || c == 0x7f {
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			start = i + 1
		}
		i++
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendStrings appends a JSON array of strings.
func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

// appendSet appends a JSON array of the names whose bits are set, the lowest first.
func appendSet[S ~uint8 | ~uint32](dst []byte, set S, names []string) []byte {
	dst = append(dst, '[')
	first := true
	for i, name := range names {
		if set>>i&1 == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendString(dst, name)
	}
	return append(dst, ']')
}

// appendBool appends true or false.
func appendBool(dst []byte, b bool) []byte { return strconv.AppendBool(dst, b) }

// nanoseconds is t in nanoseconds since the Unix epoch, 0 for the zero time.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixNano(), 0)
}

// appendStamp appends t as RFC 3339 text in UTC, or null for the zero time.
func appendStamp(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	return append(dst, '"')
}

// appendTime appends t as ROS writes a stamp: seconds and nanoseconds since the epoch, zero for the zero time.
func appendTime(dst []byte, t time.Time) []byte {
	ns := nanoseconds(t)
	dst = append(dst, `{"sec":`...)
	dst = strconv.AppendInt(dst, ns/1e9, 10)
	dst = append(dst, `,"nanosec":`...)
	dst = strconv.AppendInt(dst, ns%1e9, 10)
	return append(dst, '}')
}
