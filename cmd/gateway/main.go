// Command gateway stands between a robot's firmware and the people and programs that watch and command it.
//
// Exit status: 0 done, 1 failed while running, 2 bad use or bad configuration.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"hilgate/cmd/gateway/internal/app"
)

// version is set by the linker; a plain `go build` tells the revision that it was built from.
var version = ""

const (
	exitFailed = 1
	exitBadUse = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	ctx, hurry, release := signals()
	defer release()
	root := &cobra.Command{
		Use:   "gateway",
		Short: "Hardware-in-the-loop gateway between a robot's firmware and the world",
		Long: "gateway reads battery packs and motor controllers byte by byte, fuses them with Gazebo's linear\n" +
			"battery model, runs Gazebo's joint-trajectory controller against them, safely, and tells the world\n" +
			"over MQTT and Prometheus. Every driver has a simulator of its device: `gateway demo` needs nothing.",
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return badUse{err} })
	env := environment{stdout: stdout, stderr: stderr, hurry: hurry}
	root.AddCommand(env.demo(), env.run(), env.check(), env.sim(), env.version())
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, err)
	if bad := (badUse{}); errors.As(err, &bad) {
		return exitBadUse
	}
	if ran := (failed{}); errors.As(err, &ran) {
		return exitFailed
	}
	return exitBadUse // what cobra itself refuses: an unknown command, too many arguments
}

// badUse is an error that the user mends on the command line or in the file.
type badUse struct{ error }

func (b badUse) Unwrap() error { return b.error }

// failed is an error that came up while running.
type failed struct{ error }

func (f failed) Unwrap() error { return f.error }

// signals ends the context at the first SIGINT, SIGTERM or SIGHUP (a terminal that was closed); at a second
// one, hurry is closed. Some programs send each signal twice, to the process and to its group, so a second one
// that comes at once is the first. A reader of the output that goes away must not kill a gateway in motion:
// in `gateway run 2>&1 | tee log`, Ctrl-C ends tee at once, and the stop in order is yet to be logged.
func signals() (ctx context.Context, hurry <-chan struct{}, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	now := make(chan struct{})
	came := make(chan os.Signal, 2)
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // it is under nohup
		signal.Notify(came, syscall.SIGHUP)
	}
	go func() {
		<-came
		cancel()
		for first := time.Now(); time.Since(first) < 300*time.Millisecond; {
			<-came
		}
		close(now)
	}()
	return ctx, now, func() { signal.Stop(came); cancel() }
}

// environment is what the commands share.
type environment struct {
	stdout, stderr io.Writer
	hurry          <-chan struct{}
}

// logger writes to stderr; under systemd the journal adds the time.
func (e environment) logger(level slog.Level) *slog.Logger {
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && os.Getenv("JOURNAL_STREAM") != "" {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: drop}))
}

func (e environment) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: flagsOnly,
		Run: func(*cobra.Command, []string) { fmt.Fprintln(e.stdout, build().String()) },
	}
}

// build tells what this binary was built from.
func build() app.Build {
	b := app.Build{Version: version, Revision: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Go = info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}
