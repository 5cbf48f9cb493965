package app

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"hilgate/bms"
	"hilgate/cmd/gateway/internal/web"
	"hilgate/configs"
	"hilgate/metrics"
	"hilgate/mqtt"
	"hilgate/mqtt/broker"
	"hilgate/mqtt/wire"
)

func (g *Gateway) buildMQTT() error {
	m := g.cfg.MQTT
	if m == nil {
		return nil
	}
	c := mqtt.Config{
		Broker: m.Broker, ClientID: m.ClientID, Username: m.Username, Prefix: m.Prefix, Robot: g.cfg.Robot,
		KeepAlive: m.KeepAlive, BatteryRate: m.Rate,
		TLS:  mqtt.TLS{CAFile: m.CAFile, CertFile: m.CertFile, KeyFile: m.KeyFile},
		Info: g.info(), Latest: g.store.Latest, Changed: g.store.Changed,
	}
	if m.PasswordFile != "" {
		c.Password = func() (string, error) { return readSecret(m.PasswordFile) }
	}
	if m.Embedded != nil {
		if err := g.buildBroker(m.Embedded, &c); err != nil {
			return err
		}
	}
	for i := range g.cfg.Batteries {
		b := &g.cfg.Batteries[i]
		for _, t := range b.PowerDrainingTopic {
			c.Extra = append(c.Extra, mqtt.Extra{Topic: t, Method: wire.MethodDrainStart, Battery: b.Name})
		}
		for _, t := range b.StopPowerDrainingTopic {
			c.Extra = append(c.Extra, mqtt.Extra{Topic: t, Method: wire.MethodDrainStop, Battery: b.Name})
		}
	}
	var err error
	g.client, err = mqtt.New(c, g.orders, g.log)
	return err
}

// buildBroker makes the gateway's own broker, and points its client there. Where others need an account, the
// client gets one of its own, with a password that nobody is told.
func (g *Gateway) buildBroker(e *configs.Embedded, c *mqtt.Config) (err error) {
	config := broker.Config{Listen: e.Listen}
	for _, a := range e.Accounts {
		password, err := readSecret(a.PasswordFile)
		if err != nil {
			return fmt.Errorf("mqtt account %s: %w", a.Name, err)
		}
		config.Accounts = append(config.Accounts, broker.Account{Name: a.Name, Password: password})
	}
	if len(config.Accounts) > 0 {
		c.Username = "gateway-" + rand.Text()
		password := rand.Text()
		c.Password = func() (string, error) { return password, nil }
		config.Accounts = append(config.Accounts, broker.Account{Name: c.Username, Password: password})
	}
	if g.broker, err = broker.New(config, g.log); err != nil {
		return err
	}
	c.Broker = "tcp://" + g.broker.Addr().String()
	return nil
}

// info is the birth message.
func (g *Gateway) info() wire.Info {
	in := wire.Info{
		Version: g.build.Version, Revision: g.build.Revision, ConfigHash: g.cfg.Hash, BootID: bootID(),
		Started: g.start.UTC().Format(time.RFC3339Nano),
	}
	add := func(device, driver string) {
		kind := "real"
		if g.cfg.Serves(device) {
			kind = "sim"
		}
		in.Backends = append(in.Backends, wire.Backend{Device: device, Driver: driver, Kind: kind})
	}
	for i := range g.cfg.Batteries {
		add(g.cfg.Batteries[i].Name, g.cfg.Batteries[i].Driver)
	}
	for i := range g.cfg.Motors {
		add(g.cfg.Motors[i].Name, g.cfg.Motors[i].Driver)
	}
	return in
}

// bootID tells one boot of this machine from the next; empty where the system does not.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

func (g *Gateway) buildMetrics() {
	c := metrics.Config{Version: g.build.Version, Revision: g.build.Revision, Latest: g.store.Latest, Runtime: true}
	for i := range g.cfg.Batteries {
		b := &g.cfg.Batteries[i]
		c.Packs = append(c.Packs, metrics.Pack{
			Name: b.Name, Low: b.Low(), Critical: b.Critical(), StaleAfter: b.Poll.StaleAfter,
		})
	}
	for _, m := range g.groups {
		c.Loops = append(c.Loops, metrics.Loop{Name: m.config.Name, Period: m.period, Realtime: func() metrics.Realtime {
			return metrics.Realtime(m.pacer.Realtime())
		}})
	}
	for i := range g.cfg.Buses {
		b := &g.cfg.Buses[i]
		c.Buses = append(c.Buses, metrics.Bus{
			Name: b.Name, Device: b.Device, Driver: g.driverOn(b.Name), Counters: g.counters[b.Name],
		})
	}
	if g.client != nil {
		c.MQTT = func() metrics.MQTTStats { return mqttStats(g.client.Stats()) }
	}
	g.metrics = metrics.New(c)
	for name, counters := range g.counters {
		counters.Took = g.metrics.Transaction(name)
	}
}

// mqttStats names what the client has counted.
func mqttStats(s mqtt.Stats) metrics.MQTTStats {
	m := metrics.MQTTStats{
		Connected: s.Connected, Connects: s.Connects, Losses: s.Losses, Failures: s.Failures, Dropped: s.Dropped,
	}
	for c := range wire.Classes {
		m.Published = append(m.Published, metrics.Count{Name: c.String(), N: s.Published[c]})
	}
	for k := range wire.Methods {
		m.Commands = append(m.Commands, metrics.Count{Name: k.String(), N: s.Commands[k]})
	}
	for r := range wire.Rejects {
		n := uint64(0)
		for k := range wire.Methods {
			n += s.Rejected[k][r]
		}
		m.Rejected = append(m.Rejected, metrics.Count{Name: r.String(), N: n})
	}
	return m
}

// driverOn is the driver of the first device on a bus.
func (g *Gateway) driverOn(bus string) string {
	for i := range g.cfg.Batteries {
		if g.cfg.Batteries[i].Bus == bus {
			return g.cfg.Batteries[i].Driver
		}
	}
	for i := range g.cfg.Motors {
		if g.cfg.Motors[i].Bus == bus {
			return g.cfg.Motors[i].Driver
		}
	}
	return ""
}

// pages are what HTTP serves.
func (g *Gateway) pages() http.Handler {
	return web.Handler(web.Config{
		Version: g.build.Version, Latest: g.store.Latest, Metrics: g.metrics.Handler(),
		Healthy: g.Healthy, Ready: g.ready,
	})
}

// Healthy fails if the store has published nothing for a while: then nothing that is reported is true.
func (g *Gateway) Healthy() error {
	if age := time.Since(g.store.Latest().At); age > 5*time.Second {
		return fmt.Errorf("the store has been silent for %v", age.Round(time.Second))
	}
	return nil
}

// ready lists what has not answered yet, or does no longer.
func (g *Gateway) ready() []string {
	var missing []string
	s := g.store.Latest()
	for i := range s.Packs {
		if p := &s.Packs[i]; p.Quality == bms.Invalid || p.Quality == bms.Stale {
			missing = append(missing, fmt.Sprintf("battery %s does not answer: %s", p.Name, p.LastError))
		}
	}
	for i := range s.Groups {
		if m := &s.Groups[i]; !m.Connected {
			missing = append(missing, fmt.Sprintf("motors %s do not answer: %s", m.Name, m.LastError))
		}
	}
	if g.client != nil && !g.client.Stats().Connected {
		missing = append(missing, "mqtt is not connected")
	}
	return missing
}
