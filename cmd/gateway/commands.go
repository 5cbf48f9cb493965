package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"hilgate/cmd/gateway/internal/app"
	"hilgate/configs"
	"hilgate/drivers/all"
)

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
		Use: "check --config FILE", Short: "Tell every fault of a configuration; opens no bus", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := load(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(e.stdout, "%s: robot %s: %d batteries, %d motor controllers: no faults\n",
				file, cfg.Robot, len(cfg.Batteries), len(cfg.Motors))
			return nil
		},
	}
	configFlag(c, &file)
	return c
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
		Use: "run --config FILE", Short: "Run the gateway as a service", Args: cobra.NoArgs,
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
		Use: "sim --config FILE", Short: "Serve the simulators alone, for other people's software", Args: cobra.NoArgs,
		Long: "sim serves each device that the file's simulate section names, at the address of its bus: serial\n" +
			"devices on pseudo terminals behind symbolic links, I²C buses as device nodes (FUSE; needs root or\n" +
			"CAP_SYS_ADMIN). A gateway that runs with the same file opens them.",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load(file)
			if err != nil {
				return err
			}
			s, err := app.NewSim(cfg, all.Registry(), listen, e.logger(slog.LevelInfo))
			if err != nil {
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
