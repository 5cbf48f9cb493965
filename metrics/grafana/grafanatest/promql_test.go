package grafanatest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelectorsOfAnExpression(t *testing.T) {
	for expr, want := range map[string][]Selector{
		`up`:       {{Metric: "up"}},
		`time()`:   nil,
		`{a="b"}`:  {{Matchers: `a="b"`}},
		`a or b`:   {{Metric: "a"}, {Metric: "b"}},
		`a + 2*b`:  {{Metric: "a"}, {Metric: "b"}},
		`1.5e3 >2`: nil,
		`histogram_quantile(0.99, sum by (le, loop) (rate(x_bucket{job=~"$job", l="}("}[$__rate_interval])))`: {
			{Metric: "x_bucket", Matchers: `job=~"$job",l="}("`, Range: "$__rate_interval", Function: "rate"},
		},
		`sum(a{x="1"}) by (x) / on (y) group_left (z) b{}`: {
			{Metric: "a", Matchers: `x="1"`, Function: "sum"}, {Metric: "b"},
		},
		`label_replace(a{q="r"}, "until", "empty", "", "") or c offset 5m`: {
			{Metric: "a", Matchers: `q="r"`, Function: "label_replace"}, {Metric: "c"},
		},
		`max by (x) (a) > bool 0`: {{Metric: "a"}},
	} {
		if diff := cmp.Diff(want, Selectors(expr)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expr, diff)
		}
	}
}
