package line
import ("testing";"strconv";"strings";"time";"sync";"sync/atomic";"math/rand/v2"
"periph.io/x/host/v3/sysfs"
"periph.io/x/conn/v3/i2c"
"hilgate/model/link"
"hilgate/drivers/sim")
type cc struct{ i2c.BusCloser }
func (cc) Counters() *link.Counters { return nil }
func TestTmpPeriph(t *testing.T) {
	path, _ := bench(t, sim.NodeOptions{})
	n, _ := strconv.Atoi(strings.TrimPrefix(path, "/dev/i2c-"))
	p, err := sysfs.NewI2C(n)
	if err != nil { t.Fatal(err) }
	b := cc{p}
	var tr, wrong, failed atomic.Int64
	var wg sync.WaitGroup
	turns := make(chan struct{}, 8)
	for end := time.Now().Add(2*time.Second); time.Now().Before(end); {
		turns <- struct{}{}
		wg.Go(func() { defer func(){<-turns}(); c := byte(rand.Uint32()); g, err := deep(rand.IntN(60), b, c); tr.Add(1)
		if err != nil { failed.Add(1) } else if g != wordOf(c) { wrong.Add(1) } })
	}
	wg.Wait()
	t.Logf("%d transfers %d wrong %d failed", tr.Load(), wrong.Load(), failed.Load())
}
