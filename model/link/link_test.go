package link

import (
	"errors"
	"fmt"
	"testing"
)

// errno stands for an error that matches a kind by its Is method, as a bus's own error type does.
type errno int

func (e errno) Error() string        { return fmt.Sprint("errno ", int(e)) }
func (e errno) Is(target error) bool { return e == 121 && target == NACK }

func TestKindIsFoundInAnErrorsChain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{fmt.Errorf("read voltage: %w", PEC), PEC},
		{fmt.Errorf("transfer: %w", errno(121)), NACK},
		{errno(5), IO},
		{errors.New("something else"), IO},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("KindOf(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}

func TestEveryKindHasANameAndAText(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if k.String() == "" || k.Error() == "" || seen[k.String()] {
			t.Errorf("kind %d: name %q, text %q", k, k.String(), k.Error())
		}
		seen[k.String()] = true
	}
}

func TestOnlyALostPortAsksToBeOpenedAnew(t *testing.T) {
	if !Lost(fmt.Errorf("write: %w", Closed)) || Lost(PEC) || Lost(Timeout) {
		t.Error("Lost does not tell a closed port from a bad exchange")
	}
}

func TestCountersCount(t *testing.T) {
	c := new(Counters)
	var took float64
	c.Took = func(s float64) { took += s }
	c.Exchanged(3, 5, 0.25)
	c.Exchanged(1, 2, 0.25)
	c.Failed(fmt.Errorf("x: %w", CRC))
	c.Failed(nil)
	c.Retried()
	c.Opened()
	n := c.Counts()
	want := Counts{Transactions: 2, WrittenBytes: 4, ReadBytes: 7, Retries: 1, Opens: 1}
	want.Failures[CRC] = 1
	if n != want || took != 0.5 {
		t.Errorf("counts %+v, took %v; want %+v, 0.5", n, took, want)
	}
}

type carrier struct{ c Counters }

func (c *carrier) Counters() *Counters { return &c.c }

func TestOfFindsTheCountersOfABus(t *testing.T) {
	var b carrier
	if Of(&b) != &b.c {
		t.Error("Of does not return the bus's own counters")
	}
	if Of(42) == nil {
		t.Error("Of returns nil for a bus without counters")
	}
}
