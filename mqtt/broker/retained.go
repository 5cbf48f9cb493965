package broker

import (
	"sync"
	"sync/atomic"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// retained keeps a subscription from looking through the retained messages while one is being stored. mochi
// 2.7.9 reads the topic of a stored message without a lock (its issue 200), and half a string read is the end
// of the process.
//
// Both happen in the goroutine of the client that publishes or subscribes, between two events:
//
//	publish     OnPublish     → stored         → OnRetainMessage
//	will        OnWill        → stored         → OnRetainMessage
//	subscribe   SUBACK sent   → looked through → OnPacketProcessed
//
// Nothing in between waits for a connection. A delayed will (MQTT 5) would be stored elsewhere, and so is
// published at once.
type retained struct {
	mochi.HookBase
	mu     sync.Mutex
	holder atomic.Pointer[mochi.Client] // of mu
}

func (r *retained) lock(cl *mochi.Client) {
	r.mu.Lock()
	r.holder.Store(cl)
}

func (r *retained) unlock(cl *mochi.Client) {
	if r.holder.CompareAndSwap(cl, nil) {
		r.mu.Unlock()
	}
}

// ID names the hook.
func (r *retained) ID() string { return "retained" }

// Provides says which events the hook hears.
func (r *retained) Provides(event byte) bool {
	switch event {
	case mochi.OnConnect, mochi.OnPublish, mochi.OnWill, mochi.OnRetainMessage, mochi.OnPacketSent, mochi.OnPacketProcessed:
		return true
	}
	return false
}

// OnConnect takes the delay off a will.
func (r *retained) OnConnect(cl *mochi.Client, _ packets.Packet) error {
	cl.Properties.Will.WillDelayInterval = 0
	return nil
}

// OnPublish comes before a message is stored.
func (r *retained) OnPublish(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	if pk.FixedHeader.Retain {
		r.lock(cl)
	}
	return pk, nil
}

// OnWill comes before a will is stored.
func (r *retained) OnWill(cl *mochi.Client, will mochi.Will) (mochi.Will, error) {
	if will.Retain {
		r.lock(cl)
	}
	return will, nil
}

// OnRetainMessage comes after a message was stored.
func (r *retained) OnRetainMessage(cl *mochi.Client, _ packets.Packet, _ int64) { r.unlock(cl) }

// OnPacketSent comes, with a SUBACK, before the stored messages are looked through.
func (r *retained) OnPacketSent(cl *mochi.Client, pk packets.Packet, _ []byte) {
	if pk.FixedHeader.Type == packets.Suback {
		r.lock(cl)
	}
}

// OnPacketProcessed comes, with a SUBSCRIBE, after they were.
func (r *retained) OnPacketProcessed(cl *mochi.Client, pk packets.Packet, _ error) {
	if pk.FixedHeader.Type == packets.Subscribe {
		r.unlock(cl)
	}
}
