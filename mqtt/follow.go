package mqtt

import (
	"math"

	"hilgate/model"
	"hilgate/model/permit"
	"hilgate/mqtt/wire"
)

// mostFollowing bounds the trajectories that were accepted and not yet seen to end. More than a handful are
// there only if they are streamed faster than snapshots are made.
const mostFollowing = 64

// following is a trajectory on its way.
type following struct {
	id       uint64
	answer   *answer
	joints   []string
	maxError []float64 // rad or m, by joint; NaN as long as nothing was seen
	running  bool
}

// follow begins to watch a trajectory.
func (r *runner) follow(id uint64, joints []string, a *answer) {
	f := &following{id: id, answer: a, joints: joints, maxError: make([]float64, len(joints))}
	for i := range f.maxError {
		f.maxError[i] = math.NaN()
	}
	r.following = append(r.following, f)
	if len(r.following) > mostFollowing {
		oldest := r.following[0]
		r.following = r.following[1:]
		r.end(oldest, wire.PathToleranceViolated, "lost sight of")
	}
}

// observe looks how far the trajectories have come, and reports those that ended.
func (r *runner) observe(s *model.Snapshot) {
	kept := r.following[:0]
	for _, f := range r.following {
		active, seen, newer, ratio, withheld := f.look(s)
		switch {
		case active && !f.running:
			f.running = true
			f.answer.ack.Phase = wire.Running
			r.tell(f.answer)
		case active:
		case seen && ratio == 1:
			r.end(f, wire.Successful, "")
			continue
		case seen && withheld != 0:
			r.end(f, wire.PathToleranceViolated, "stopped: "+withheld.String())
			continue
		case seen:
			r.end(f, wire.PathToleranceViolated, "stopped")
			continue
		case newer:
			r.end(f, wire.PathToleranceViolated, "replaced by a newer trajectory")
			continue
		}
		kept = append(kept, f)
	}
	clear(r.following[len(kept):])
	r.following = kept
}

// look finds the trajectory in a snapshot: whether a group still runs it, whether one has it at all, whether
// one has a newer one, how far the slowest has come, and why its joints may not run. It takes the joints'
// errors down.
func (f *following) look(s *model.Snapshot) (active, seen, newer bool, ratio float32, withheld permit.Reason) {
	ratio = 1
	for i := range s.Groups {
		g := &s.Groups[i]
		newer = newer || g.Trajectory.ID > f.id
		if g.Trajectory.ID != f.id {
			continue
		}
		seen = true
		active = active || g.Trajectory.Active
		ratio = min(ratio, g.Trajectory.Ratio)
		for j := range g.Joints {
			withheld |= g.Joints[j].Withheld
			for k, name := range f.joints {
				e := math.Abs(float64(g.Joints[j].Target.Position - g.Joints[j].Feedback.Position))
				if name == g.Joints[j].Name && g.Trajectory.Active && !(e <= f.maxError[k]) && !math.IsNaN(e) {
					f.maxError[k] = e
				}
			}
		}
	}
	return active, seen, newer, ratio, withheld
}

// end reports the end of a trajectory to whoever sent it, and to all.
func (r *runner) end(f *following, code wire.ResultCode, text string) {
	a := f.answer
	a.ack.Phase, a.ack.Code, a.ack.Message = wire.Done, int(code), text
	if code != wire.Successful {
		a.ack.Phase = wire.Failed
	}
	r.tell(a)
	r.result(a.ack.ID, code, text, f.maxError)
}

// result publishes how a trajectory ended, or why it was not taken up.
func (r *runner) result(id string, code wire.ResultCode, text string, maxError []float64) {
	payload := wire.AppendResult(nil, id, code, text, maxError)
	r.say(&wire.Message{Topic: r.topics.Robot(wire.TrajectoryResult), Payload: payload, Class: wire.ClassEvent})
}
