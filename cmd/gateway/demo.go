package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hilgate/bms"
	"hilgate/cmd/gateway/internal/app"
	"hilgate/configs"
	"hilgate/drivers/all"
	"hilgate/model"
	"hilgate/model/unit"
	"hilgate/motor"
)

type demoOptions struct {
	duration, every time.Duration
	mqtt, http      string
	quiet           bool
	speed           float64
}

func (e environment) demo() *cobra.Command {
	var o demoOptions
	c := &cobra.Command{
		Use: "demo", Short: "Run a whole robot on simulators, with its own broker: needs nothing else", Args: flagsOnly,
		Long: "demo runs the gateway on simulators of a smart battery and a motor controller, byte by byte, with\n" +
			"the broker, the pages and the metrics, from a configuration compiled in. A built-in motion moves both\n" +
			"joints; their work empties the pack. With --speed the pack has so much less capacity, so that a\n" +
			"discharge can be watched.",
		RunE: func(c *cobra.Command, _ []string) error { return e.runDemo(c, o) },
	}
	c.Flags().DurationVar(&o.duration, "duration", 0, "stop after this `time`; 0 runs until Ctrl-C")
	c.Flags().DurationVar(&o.every, "every", 5*time.Second, "print what the robot does in this `interval`")
	c.Flags().StringVar(&o.mqtt, "mqtt", configs.DefaultBroker, "`address` of the broker in the demo")
	c.Flags().StringVar(&o.http, "http", configs.DefaultHTTP, "`address` of pages and metrics")
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print where to look, and nothing more")
	c.Flags().Float64Var(&o.speed, "speed", 60, "times faster that the pack drains and charges")
	return c
}

func (e environment) runDemo(c *cobra.Command, o demoOptions) error {
	src := configs.Demo()
	cfg, err := configs.Load("demo.yaml", src, all.Registry())
	if err != nil {
		return failed{err}
	}
	switch {
	case !(o.speed >= 1 && o.speed <= 1000):
		return badUse{fmt.Errorf("--speed %v: want 1 to 1000", o.speed)}
	case o.duration < 0:
		return badUse{fmt.Errorf("--duration %v: want a time, or 0 for no end", o.duration)}
	case o.every <= 0:
		return badUse{fmt.Errorf("--every %v: want more than 0; --quiet prints no lines", o.every)}
	}
	cfg.Hasten(o.speed)
	cfg.MQTT.Embedded.Listen, cfg.HTTP.Listen = o.mqtt, o.http
	g, err := app.New(cfg, all.Registry(), build(), e.logger(slog.LevelWarn))
	// A default port that is busy gives way; an address that was asked for does not.
	for tries := 0; errors.Is(err, addressInUse) && tries < 2; tries++ {
		var busy string
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
			busy = op.Addr.String()
		}
		switch flags := c.Flags(); {
		case !flags.Changed("mqtt") && busy == cfg.MQTT.Embedded.Listen:
			cfg.MQTT.Embedded.Listen = "127.0.0.1:0"
		case !flags.Changed("http") && busy == cfg.HTTP.Listen:
			cfg.HTTP.Listen = "127.0.0.1:0"
		default:
			return failed{err}
		}
		fmt.Fprintf(e.stderr, "%v: taking a free port instead\n", err)
		g, err = app.New(cfg, all.Registry(), build(), e.logger(slog.LevelWarn))
	}
	if err != nil {
		if _, ok := errors.AsType[*net.AddrError](err); ok {
			return badUse{err}
		}
		return failed{err}
	}
	e.announce(g, cfg, o.speed)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if o.duration > 0 {
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	if !o.quiet {
		telling := make(chan struct{})
		defer func() { <-telling }()
		defer cancel()
		go func() {
			defer close(telling)
			defer cancel() // nobody reads any more: a demo into `head` ends
			e.tell(ctx, g, o.every)
		}()
	}
	if err := g.Run(ctx, e.hurry); err != nil {
		return failed{err}
	}
	fmt.Fprintln(e.stdout, "stopped")
	return nil
}

// announce prints where to look.
func (e environment) announce(g *app.Gateway, cfg *configs.File, speed float64) {
	host, port, _ := net.SplitHostPort(g.Broker())
	robot := "model/" + cfg.Robot
	fmt.Fprintf(e.stdout, "%s: a simulated robot named %s\n\n", build(), cfg.Robot)
	fmt.Fprintf(e.stdout, "broker    %s\n", g.Broker())
	fmt.Fprintf(e.stdout, "watch     mosquitto_sub -h %s -p %s -v -t '%s/#'\n", host, port, robot)
	for i := range cfg.Batteries {
		fmt.Fprintf(e.stdout, "recharge  mosquitto_pub -h %s -p %s -t %s/battery/%s/recharge/start -m true\n",
			host, port, robot, cfg.Batteries[i].Name)
	}
	fmt.Fprintf(e.stdout, "metrics   http://%s/metrics\n", g.HTTPAddr())
	fmt.Fprintf(e.stdout, "state     http://%s/api/state\n", g.HTTPAddr())
	for _, p := range g.Ports() {
		fmt.Fprintf(e.stdout, "port      %s at %s\n", p.Bus, p.Path)
	}
	for i := range cfg.Batteries {
		b := &cfg.Batteries[i]
		fmt.Fprintf(e.stdout, "pack      %s holds %.3g Ah, so that it empties %g times faster than one of %.3g Ah\n",
			b.Name, float64(b.Model.Capacity), speed, float64(b.Model.Capacity)*speed)
	}
	fmt.Fprintln(e.stdout, "stop      Ctrl-C")
	fmt.Fprintln(e.stdout)
}

// tell prints a line in each interval, and one whenever the permits change, until ctx ends or printing fails.
func (e environment) tell(ctx context.Context, g *app.Gateway, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	withheld := ""
	for {
		changed := g.Changed()
		s := g.Latest()
		if now := why(s); now != withheld {
			withheld = now
			if _, err := fmt.Fprintln(e.stdout, line(s)); err != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := fmt.Fprintln(e.stdout, line(g.Latest())); err != nil {
				return
			}
		case <-changed:
		}
	}
}

// why tells what keeps the joints from running.
func why(s *model.Snapshot) string { return s.Safety.Withheld.String() }

// line tells in one line what the robot does.
func line(s *model.Snapshot) string {
	var b strings.Builder
	b.WriteString(s.At.Format("15:04:05"))
	for i := range s.Packs {
		p := &s.Packs[i]
		fmt.Fprintf(&b, "  %s %s %% ±%s  %s V %s A  %s", p.Name, told("%5.1f", 100*p.Estimate.SoC),
			told("%.1f", 100*p.Estimate.SoCSigma), told("%6.2f", p.Reading.Voltage),
			told("%+6.2f", p.Reading.Current), p.Status)
		if p.ChargerOn && p.Status != bms.Charging {
			b.WriteString(" (charger on)")
		}
		if p.Empty {
			b.WriteString(" EMPTY")
		}
		if p.Quality != bms.Measured {
			fmt.Fprintf(&b, " (%s)", p.Quality)
		}
	}
	for i := range s.Groups {
		for k := range s.Groups[i].Joints {
			j := &s.Groups[i].Joints[k]
			fmt.Fprintf(&b, "  %s %s→%s", j.Name, told("%+.2f", j.Feedback.Position), told("%+.2f", j.Target.Position))
			if j.Command.Mode == motor.ModeStop {
				b.WriteString(" off")
			}
		}
	}
	if s.Safety.Withheld != 0 {
		fmt.Fprintf(&b, "  [%v]", s.Safety.Withheld)
	}
	return b.String()
}

// told formats a quantity; one that is not known is a dash.
func told[Q ~float64](format string, q Q) string {
	if !unit.Known(q) {
		return "–"
	}
	return fmt.Sprintf(format, float64(q))
}
