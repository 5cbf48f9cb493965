package metrics

// MQTTStats is what the MQTT client has counted since it was made. The names in it become label values:
// they are from closed lists, never a topic, a client's or a request's name, and each that can occur is
// there from the start, with 0.
type MQTTStats struct {
	Connected        bool
	Connects, Losses uint64

	Published []Count // by class of message: "state", "event", "ack"
	Failures  uint64  // messages that the broker did not take
	Dropped   uint64  // messages left out because there was no connection, or no room

	Commands []Count // by method, accepted or not
	Rejected []Count // by reason: by method as well, they would be a tenth of the page
}

// Count is a counter and its name.
type Count struct {
	Name string
	N    uint64
}

// mqttFamilies tell of the MQTT client.
type mqttFamilies struct {
	connected, connects, losses, published, failures, dropped, commands, rejected family
}

func newMQTTFamilies(c *catalogue) mqttFamilies {
	return mqttFamilies{
		connected: c.gauge("mqtt_connected", "1 while the broker is connected."),
		connects:  c.counter("mqtt_connects_total", "Connections that were made."),
		losses:    c.counter("mqtt_connection_losses_total", "Connections that broke."),
		published: c.counter("mqtt_published_total", "Messages handed to the broker.", "class"),
		failures:  c.counter("mqtt_publish_failures_total", "Messages that the broker did not take."),
		dropped: c.counter("mqtt_publish_dropped_total",
			"Messages left out because there was no connection or no room."),
		commands: c.counter("mqtt_commands_total", "Commands that came in, refused ones too.", "method"),
		rejected: c.counter("mqtt_commands_rejected_total", "Commands that were refused.", "reason"),
	}
}

func (f *mqttFamilies) collect(p page, s MQTTStats) {
	p.flag(f.connected, s.Connected)
	p.put(f.connects, float64(s.Connects))
	p.put(f.losses, float64(s.Losses))
	for _, n := range s.Published {
		p.put(f.published, float64(n.N), n.Name)
	}
	p.put(f.failures, float64(s.Failures))
	p.put(f.dropped, float64(s.Dropped))
	for _, n := range s.Commands {
		p.put(f.commands, float64(n.N), n.Name)
	}
	for _, n := range s.Rejected {
		p.put(f.rejected, float64(n.N), n.Name)
	}
}
