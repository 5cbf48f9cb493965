package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// journal is what happened, in order.
type journal struct {
	mu   sync.Mutex
	text []string
}

func (j *journal) add(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = append(j.text, s)
}

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.text)
}

func (j *journal) part(name string, linger time.Duration) part {
	return part{name, func(ctx context.Context) error {
		j.add("+" + name)
		<-ctx.Done()
		time.Sleep(linger)
		j.add("-" + name)
		return nil
	}}
}

var quiet = slog.New(slog.DiscardHandler)

func TestStagesStopInReverseAndWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := runStages(ctx, nil, quiet, []stage{
			{name: "a", parts: []part{j.part("a", 0)}, wait: time.Second},
			{name: "b", parts: []part{j.part("b", 500*time.Millisecond)}, wait: time.Second},
			{name: "c", parts: []part{j.part("c", 900*time.Millisecond)}, wait: time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"-c", "-b", "-a"}; !slices.Equal(j.read()[3:], want) {
			t.Errorf("stopped as %v, want %v", j.read()[3:], want)
		}
	})
}

func TestAFailingPartStopsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		bad := errors.New("no memory")
		err := runStages(t.Context(), nil, quiet, []stage{
			{name: "a", parts: []part{j.part("a", 0)}, wait: time.Second},
			{name: "b", parts: []part{{"b", func(context.Context) error { return bad }}}, wait: time.Second},
		})
		if !errors.Is(err, bad) || !strings.Contains(err.Error(), "b: no memory") {
			t.Errorf("err = %v", err)
		}
		if !slices.Contains(j.read(), "-a") {
			t.Error("the other stage was not stopped")
		}
	})
}

func TestAPartThatFailsAsItStopsIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moving := errors.New("joints have not come to rest")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := runStages(ctx, nil, quiet, []stage{
			{name: "motion", parts: []part{{"base", func(ctx context.Context) error {
				<-ctx.Done()
				return moving
			}}}, wait: time.Second, always: true},
		})
		if !errors.Is(err, moving) || !strings.Contains(err.Error(), "base: ") {
			t.Errorf("err = %v, want the part's", err)
		}
	})
}

func TestAPartThatEndsByItselfIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := runStages(t.Context(), nil, quiet, []stage{
			{name: "a", parts: []part{{"a", func(context.Context) error { return nil }}}, wait: time.Second},
		})
		if err == nil || !strings.Contains(err.Error(), "ended by itself") {
			t.Errorf("err = %v", err)
		}
	})
}

func TestAStageThatHangsIsNamedAndLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		err := runStages(ctx, nil, quiet, []stage{
			{name: "a", parts: []part{j.part("a", 0)}, wait: time.Second},
			{name: "sensing", parts: []part{j.part("gauge", time.Hour)}, wait: 2 * time.Second},
		})
		if err == nil || !strings.Contains(err.Error(), "sensing") || !strings.Contains(err.Error(), "gauge") {
			t.Errorf("err = %v, want stage and part named", err)
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("took %v, want 3 s", took)
		}
		if !slices.Contains(j.read(), "-a") {
			t.Error("the stage below was not stopped")
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestHurrySkipsEveryWaitButMotions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		hurry := make(chan struct{})
		close(hurry)
		begin := time.Now()
		err := runStages(ctx, hurry, quiet, []stage{
			{name: "store", parts: []part{j.part("store", time.Minute)}, wait: time.Hour},
			{name: "motion", parts: []part{j.part("base", time.Second)}, wait: time.Hour, always: true},
		})
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("took %v, want 2 s: motion is waited for, the store is not", took)
		}
		if err != nil || !slices.Contains(j.read(), "-base") {
			t.Errorf("err = %v, journal %v", err, j.read())
		}
		time.Sleep(2 * time.Hour)
	})
}
