package mqtt

import (
	"sync/atomic"

	"hilgate/mqtt/wire"
)

// Stats is what a client has counted since it was made. Arrays are by the values of their closed sets.
type Stats struct {
	Connected        bool
	Connects, Losses uint64

	Published [wire.Classes]uint64 // messages handed to the broker
	Failures  uint64               // messages that the broker did not confirm
	Dropped   uint64               // messages left out because there was no connection

	Commands [wire.Methods]uint64 // that came in, refused ones too
	Rejected [wire.Methods][wire.Rejects]uint64
}

// counters are Stats while it is being counted.
type counters struct {
	connected                           atomic.Bool
	connects, losses, failures, dropped atomic.Uint64
	published                           [wire.Classes]atomic.Uint64
	commands                            [wire.Methods]atomic.Uint64
	rejected                            [wire.Methods][wire.Rejects]atomic.Uint64
}

func (c *counters) read() Stats {
	s := Stats{
		Connected: c.connected.Load(), Connects: c.connects.Load(), Losses: c.losses.Load(),
		Failures: c.failures.Load(), Dropped: c.dropped.Load(),
	}
	for i := range s.Published {
		s.Published[i] = c.published[i].Load()
	}
	for m := range s.Commands {
		s.Commands[m] = c.commands[m].Load()
		for r := range s.Rejected[m] {
			s.Rejected[m][r] = c.rejected[m][r].Load()
		}
	}
	return s
}
