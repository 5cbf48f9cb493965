package metrics

import "hilgate/model/link"

// busFamilies tell what went over the buses and serial lines, and what went wrong.
type busFamilies struct {
	info, transactions, retries, errors, recoveries, read, written family
}

func newBusFamilies(c *catalogue) busFamilies {
	return busFamilies{
		info:         c.gauge("bus_info", "What hangs on the bus; always 1.", "bus", "device", "driver"),
		transactions: c.counter("bus_transactions_total", "Transactions, failed ones too.", "bus", "device"),
		retries:      c.counter("bus_retries_total", "Transactions that repeated a failed one.", "bus", "device"),
		errors:       c.counter("bus_errors_total", "Failures, by what went wrong.", "bus", "device", "kind"),
		recoveries: c.counter("bus_recoveries_total",
			"Openings of the port after the first, each after a loss.", "bus", "device"),
		read:    c.counter("bus_read_bytes_total", "Bytes that came in.", "bus", "device"),
		written: c.counter("bus_written_bytes_total", "Bytes that went out.", "bus", "device"),
	}
}

func (f *busFamilies) collect(p page, b *Bus) {
	n := b.Counters.Counts()
	p.put(f.info, 1, b.Name, b.Device, b.Driver)
	p.put(f.transactions, float64(n.Transactions), b.Name, b.Device)
	p.put(f.retries, float64(n.Retries), b.Name, b.Device)
	for _, k := range link.Kinds() {
		p.put(f.errors, float64(n.Failures[k]), b.Name, b.Device, k.String())
	}
	p.put(f.recoveries, float64(max(n.Opens, 1)-1), b.Name, b.Device)
	p.put(f.read, float64(n.ReadBytes), b.Name, b.Device)
	p.put(f.written, float64(n.WrittenBytes), b.Name, b.Device)
}
