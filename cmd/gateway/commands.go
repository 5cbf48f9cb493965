package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"hilgate/cmd/gateway/internal/app"
	"hilgate/configs"
	"hilgate/drivers/all"
)

// flagsOnly refuses arguments, of which no command has any.
func flagsOnly(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return badUse{fmt.Errorf("%s: %q: want flags alone, see %s --help", c.CommandPath(), args[0], c.CommandPath())}
	}
	return nil
}

// load reads and checks a configuration.
func load(name string) (*configs.File, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, badUse{err}
	}
	cfg, err := configs.Load(name, src, all.Registry())
	if err != nil {
		return nil, badUse{err}
	}
	return cfg, nil
}

func (e environment) check() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "check --config FILE", Short: "Tell every fault of a configuration; opens no bus", Args: flagsOnly,
		Long: "check reads the file as run would, and tells every fault at once, each with its line. It opens no bus\n" +
			"and no port. Exit status: 0 without faults, else 2.",
		RunE: func(*cobra.Command, []string) error {
			cfg, err := load(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(e.stdout, "%s: robot %s: %s, %s: no faults\n", file, cfg.Robot,
				count(len(cfg.Batteries), "battery", "batteries"), count(len(cfg.Motors), "motor controller", "motor controllers"))
			return nil
		},
	}
	configFlag(c, &file)
	return c
}

func count(n int, one, more string) string {
	if n == 1 {
		more = one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func configFlag(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "config", "c", "", "configuration `file` (YAML)")
	if err := c.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag was defined in the line above
	}
}

func (e environment) run() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "run --config FILE", Short: "Run the gateway as a service", Args: flagsOnly,
		Long: "run opens the file's buses, arms the motor controllers' own timeouts, and serves until SIGTERM or\n" +
			"Ctrl-C, which stop the motors first and say offline last. What does not answer is tried again for ever.\n" +
			"Exit status: 0 stopped, 1 failed, 2 bad configuration.",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load(file)
			if err != nil {
				return err
			}
			log := e.logger(cfg.LogLevel)
			g, err := app.New(cfg, all.Registry(), build(), log)
			if err != nil {
				return failed{err}
			}
			log.Info("gateway starts", "version", build().Version, "robot", cfg.Robot, "config", file,
				"http", g.HTTPAddr(), "mqtt", g.Broker())
			if u, err := user.Current(); err == nil && u.Uid == "0" {
				log.Info("running as root, which the gateway does not need: groups i2c and dialout are enough")
			}
			supervised := make(chan struct{})
			go func() {
				defer close(supervised)
				supervise(c.Context(), g, log)
			}()
			err = g.Run(c.Context(), e.hurry)
			if err != nil {
				return failed{err}
			}
			<-supervised
			log.Info("gateway stopped")
			return nil
		},
	}
	configFlag(c, &file)
	return c
}

func (e environment) sim() *cobra.Command {
	var file, listen string
	c := &cobra.Command{
		Use: "sim --config FILE", Short: "Serve the simulators alone, for other people's software", Args: flagsOnly,
		Long: "sim serves each device that the file's simulate section names, at the address of its bus: serial\n" +
			"devices on pseudo terminals behind symbolic links, I²C buses as device nodes (FUSE; needs root or\n" +
			"CAP_SYS_ADMIN). A gateway that runs with the same file opens them.",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load(file)
			if err != nil {
				return err
			}
			s, err := app.NewSim(cfg, all.Registry(), listen, e.logger(slog.LevelInfo))
			switch {
			case errors.Is(err, app.ErrNotServed):
				return badUse{fmt.Errorf("%s: %w", file, err)}
			case err != nil:
				return failed{err}
			}
			for _, a := range s.Addresses() {
				fmt.Fprintf(e.stdout, "%s: %s at %s\n", a.Bus, a.What, a.Path)
			}
			if url := s.Truth(); url != "" {
				fmt.Fprintf(e.stdout, "truth: %s\n", url)
			}
			if err := s.Run(c.Context(), e.hurry); err != nil {
				return failed{err}
			}
			return nil
		},
	}
	configFlag(c, &file)
	c.Flags().StringVar(&listen, "http", "", "`address` for /truth and PUT /faults/{bus}, as 127.0.0.1:9744")
	return c
}
