package grafanatest

import (
	"regexp"
	"slices"
	"strings"
)

// Selector is one selection of series in an expression.
type Selector struct {
	Metric   string
	Matchers string // what stands between the braces
	Range    string // what stands between the brackets: "$__rate_interval"
	Function string // the one that is called on just this selector: "rate"; else empty
}

var (
	token = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[A-Za-z_:][\w:]*|\$\w+|\d[\w.]*|\s+|.`)
	word  = regexp.MustCompile(`^[A-Za-z_:]`)
)

// grouping are the words before a list of labels in parentheses.
var grouping = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}

// operators are the words between two operands, or behind one.
var operators = []string{"and", "or", "unless", "bool", "offset", "atan2", "inf", "nan"}

// Selectors finds the selections of series in an expression of PromQL, with Grafana's variables in it or
// not. The expression is taken to be one that Prometheus accepts. Selections without a metric's name are
// found too, with an empty Metric.
func Selectors(expr string) []Selector {
	tokens := slices.DeleteFunc(token.FindAllString(expr, -1), func(t string) bool { return strings.TrimSpace(t) == "" })
	at := func(i int) string {
		if i >= 0 && i < len(tokens) {
			return tokens[i]
		}
		return ""
	}
	// until joins the tokens from i up to the closing one, and says where that is.
	until := func(i int, closing string) (string, int) {
		end := i
		for end < len(tokens) && tokens[end] != closing {
			end++
		}
		return strings.Join(tokens[i:end], ""), end
	}
	var all []Selector
	for i := 0; i < len(tokens); i++ {
		t := strings.ToLower(tokens[i])
		switch {
		case slices.Contains(grouping, t) && at(i+1) == "(":
			_, i = until(i+1, ")")
			continue
		case tokens[i] == "{":
		case !word.MatchString(tokens[i]), slices.Contains(operators, t), slices.Contains(grouping, t), at(i+1) == "(",
			aggregation(tokens, i):
			continue
		}
		var s Selector
		if at(i-1) == "(" && word.MatchString(at(i-2)) {
			s.Function = at(i - 2)
		}
		if tokens[i] != "{" {
			s.Metric = tokens[i]
			if at(i+1) != "{" {
				all = append(all, s)
				continue
			}
			i++
		}
		s.Matchers, i = until(i+1, "}")
		if at(i+1) == "[" {
			s.Range, i = until(i+2, "]")
		}
		all = append(all, s)
	}
	return all
}

// aggregation reports whether the word at i stands before "by (…)" or "without (…)": "sum by (le) (…)".
func aggregation(tokens []string, i int) bool {
	return i+2 < len(tokens) && (tokens[i+1] == "by" || tokens[i+1] == "without") && tokens[i+2] == "("
}
