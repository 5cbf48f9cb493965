package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A stage is what starts together and stops together. Stages start upwards and stop downwards, so that
// motion ends before the eyes that watch it, and those before the voice that reports it.
type stage struct {
	name  string
	parts []part
	// wait bounds the stop: a part that has not returned by then is left behind, and said so.
	wait time.Duration
	// always is waited for even when the user is in a hurry.
	always bool
}

// A part runs until its context ends. An error is something that no retry mends: it stops everything.
type part struct {
	name string
	run  func(context.Context) error
}

// runStages starts the stages in order, waits for ctx to end or a part to fail, and stops them in reverse
// order. Once hurry is closed, only stages marked always are waited for. The error joins what has failed, also
// while it stopped.
func runStages(ctx context.Context, hurry <-chan struct{}, log *slog.Logger, stages []stage) error {
	failed := make(chan error, 64)
	var running []*runningStage
	for i := range stages {
		running = append(running, stages[i].start(context.WithoutCancel(ctx), failed))
	}
	var first error
	select {
	case <-ctx.Done():
	case first = <-failed:
		log.Error("a part has failed: stopping", "err", first)
	}
	errs := []error{first}
	for i := len(running) - 1; i >= 0; i-- {
		if err := running[i].stop(hurry); err != nil {
			log.Error("stage did not stop in time", "stage", running[i].name, "err", err)
			errs = append(errs, err)
		}
	}
	for {
		select {
		case err := <-failed: // as it stopped, or after the first: a motor that was not seen to stand
			log.Error("a part has failed", "err", err)
			errs = append(errs, err)
		default:
			return errors.Join(errs...)
		}
	}
}

type runningStage struct {
	*stage
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	left   map[string]bool // parts that still run
}

func (s *stage) start(ctx context.Context, failed chan<- error) *runningStage {
	ctx, cancel := context.WithCancel(ctx)
	r := &runningStage{stage: s, cancel: cancel, done: make(chan struct{}), left: map[string]bool{}}
	var all sync.WaitGroup
	for _, p := range s.parts {
		r.left[p.name] = true
		all.Go(func() {
			err := p.run(ctx)
			r.mu.Lock()
			delete(r.left, p.name)
			r.mu.Unlock()
			if err == nil && ctx.Err() == nil {
				err = errors.New("ended by itself")
			}
			if err != nil {
				select {
				case failed <- fmt.Errorf("%s: %w", p.name, err):
				default: // enough have failed
				}
			}
		})
	}
	go func() {
		all.Wait()
		close(r.done)
	}()
	return r
}

func (r *runningStage) stop(hurry <-chan struct{}) error {
	r.cancel()
	if r.always {
		hurry = nil
	}
	timer := time.NewTimer(r.wait)
	defer timer.Stop()
	select {
	case <-r.done:
		return nil
	case <-hurry: // the user does not want to wait
		return nil
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.left))
	for name := range r.left {
		names = append(names, name)
	}
	return fmt.Errorf("%s: still running when its time was over: %v", r.name, names)
}
