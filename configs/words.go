package configs

import (
	"regexp"
	"strings"
)

// The texts of yaml's decoder name Go's types. These forms of them are known; any other text is shown as it is.
var (
	unknownField = regexp.MustCompile(`^field .* not found in type `)
	wrongType    = regexp.MustCompile("^cannot construct (\\S+?)(?: `.*`)? into (\\S+)")
)

// plain says in the words of this package what yaml says of a value.
func plain(message, value string) string {
	if strings.HasPrefix(message, "slog: ") {
		return value + ": want debug, info, warn or error"
	}
	m := wrongType.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	switch m[1] {
	case "!!map":
		value = "a section of keys"
	case "!!seq":
		value = "a list"
	}
	return value + ": want " + kindOf(m[2])
}

// kindOf is what a Go type is to a writer of the file.
func kindOf(t string) string {
	switch {
	case strings.HasPrefix(t, "[]"):
		return "a list"
	case t == "bool":
		return "true or false"
	case t == "string":
		return "text"
	case t == "time.Duration":
		return "a duration, as 20ms or 1m30s"
	case t == "float64", strings.HasPrefix(t, "unit."):
		return "a number"
	case strings.HasPrefix(t, "int"):
		return "a whole number"
	case strings.HasPrefix(t, "uint"):
		return "a whole number, not negative"
	}
	return "a section of keys"
}
