package wire

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"hilgate/motor/trajectory"
)

// Trajectory is a commanded trajectory as it was sent.
type Trajectory = trajectory.Message

// Bounds of a trajectory's text.
const (
	MaxPoints = 10_000
	MaxJoints = 256
)

// ParseTrajectory reads a commanded trajectory, alone or as the args of a request's envelope:
//
//	{"header":{"stamp":{"sec":0,"nanosec":0}},"joint_names":["left"],
//	 "points":[{"positions":[1],"velocities":[],"accelerations":[],"effort":[],"time_from_start":{"sec":1,"nanosec":0}}]}
//
// Names may also be protobuf's (jointNames, timeFromStart, nsec). A time from the start is an object of whole
// seconds and nanoseconds, which add up; a number of seconds; or a text such as "1.5s". A number may be null
// or "NaN", which is NaN: whether that can be run is not decided here. Members that are missing or null are
// empty, unknown ones ignored. The message's ID is the request's.
//
// Errors name the place, as points[3].positions[1], and are, by errors.Is, one of this package's. With an
// error that is not of syntax or size the request is as far as it was read.
func ParseTrajectory(b []byte) (m Trajectory, r Request, err error) {
	if err := check(b); err != nil {
		return Trajectory{}, Request{}, err
	}
	c := walk(b)
	if c.peek() != '{' {
		return Trajectory{}, Request{}, c.wrong("an object")
	}
	if r, err = parseRequest(b[c.i:]); err != nil {
		return Trajectory{}, r, err
	}
	m.ID = r.ID
	c = walk(r.args)
	if err := c.object(func(key []byte) error { return readTrajectory(c, &m, key) }); err != nil {
		return Trajectory{}, r, err
	}
	return m, r, nil
}

func readTrajectory(c *cursor, m *Trajectory, key []byte) (err error) {
	switch string(key) {
	case "header":
		return c.object(func(key []byte) (err error) {
			if string(key) != "stamp" {
				c.skip()
				return nil
			}
			m.Start, err = c.stamp()
			return err
		})
	case "joint_names", "jointNames":
		m.JointNames = m.JointNames[:0]
		return c.array(MaxJoints, func(int) error {
			name, err := c.string(maxText)
			m.JointNames = append(m.JointNames, name)
			return err
		})
	case "points":
		m.Points = m.Points[:0]
		return c.array(MaxPoints, func(int) error {
			p, err := c.point()
			m.Points = append(m.Points, p)
			return err
		})
	}
	c.skip()
	return nil
}

func (c *cursor) point() (p trajectory.Point, err error) {
	if c.peek() != '{' {
		return p, c.wrong("an object")
	}
	err = c.object(func(key []byte) (err error) {
		switch string(key) {
		case "positions":
			p.Positions, err = c.floats()
		case "velocities":
			p.Velocities, err = c.floats()
		case "accelerations":
			p.Accelerations, err = c.floats()
		case "effort":
			p.Effort, err = c.floats()
		case "time_from_start", "timeFromStart":
			p.FromStart, err = c.span()
		default:
			c.skip()
		}
		return err
	})
	return p, err
}

func (c *cursor) floats() (list []float64, err error) {
	err = c.array(MaxJoints, func(int) error {
		x, err := c.float()
		list = append(list, x)
		return err
	})
	return list, err
}

// span takes a time from the start.
func (c *cursor) span() (time.Duration, error) {
	switch c.peek() {
	case 'n':
		c.skip()
		return 0, nil
	case '{':
		sec, nsec, err := c.seconds()
		if err != nil {
			return 0, err
		}
		const most = math.MaxInt64 / int64(time.Second)
		if sec < -most || sec > most || nsec < math.MinInt32 || nsec > math.MaxInt32 {
			return 0, fmt.Errorf("%w: %d s and %d ns", ErrRange, sec, nsec)
		}
		sum := sec*int64(time.Second) + nsec
		if nsec > 0 && sec > 0 && sum < 0 || nsec < 0 && sec < 0 && sum > 0 {
			return 0, fmt.Errorf("%w: %d s and %d ns", ErrRange, sec, nsec)
		}
		return time.Duration(sum), nil
	case '"':
		raw := c.text()
		d, err := time.ParseDuration(string(raw))
		if err != nil {
			return 0, fmt.Errorf("%w: %q is no duration", ErrWrongKind, clip(raw))
		}
		return d, nil
	}
	x, err := c.float()
	if err != nil {
		return 0, err
	}
	ns := math.Round(x * 1e9)
	if math.Abs(ns) >= math.MaxInt64 {
		return 0, fmt.Errorf("%w: %g s", ErrRange, x)
	}
	return time.Duration(ns), nil
}

// stamp takes an instant: whole seconds and nanoseconds since the Unix epoch, or a number of seconds. Zero
// and null are the zero time.
func (c *cursor) stamp() (time.Time, error) {
	var sec, nsec int64
	switch c.peek() {
	case 'n':
		c.skip()
	case '{':
		var err error
		if sec, nsec, err = c.seconds(); err != nil {
			return time.Time{}, err
		}
	default:
		x, err := c.float()
		if err != nil {
			return time.Time{}, err
		}
		if !(math.Abs(x) < maxSecond) {
			return time.Time{}, fmt.Errorf("%w: %g s", ErrRange, x)
		}
		whole, part := math.Modf(x)
		sec, nsec = int64(whole), int64(math.Round(part*1e9))
	}
	if sec < -maxSecond || sec > maxSecond || nsec < math.MinInt32 || nsec > math.MaxInt32 {
		return time.Time{}, fmt.Errorf("%w: %d s and %d ns", ErrRange, sec, nsec)
	}
	if sec == 0 && nsec == 0 {
		return time.Time{}, nil
	}
	return time.Unix(sec, nsec), nil
}

// maxSecond keeps an instant within what nanoseconds since the epoch can count.
const maxSecond = math.MaxInt64 / 1_000_000_000 / 2

// seconds takes the whole seconds and nanoseconds of ROS or Gazebo.
func (c *cursor) seconds() (sec, nsec int64, err error) {
	err = c.object(func(key []byte) (err error) {
		switch string(key) {
		case "sec":
			sec, err = c.integer()
		case "nsec", "nanosec":
			nsec, err = c.integer()
		default:
			c.skip()
		}
		return err
	})
	return sec, nsec, err
}

// ResultCode says how a trajectory ended, in the numbers of ROS's FollowJointTrajectory, which are HRIM's
// too. Of its -1 to -5 the gateway uses those below; the text beside the number says more.
type ResultCode int

const (
	Successful            ResultCode = 0
	InvalidGoal           ResultCode = -1 // it was refused
	PathToleranceViolated ResultCode = -4 // the path was left: it was stopped, or a newer one took over
)

// AppendResult appends how a trajectory ended: the request's id, the code, what it means here, and for each
// of the trajectory's joints the greatest distance from its target that was seen, in rad or m.
func AppendResult(dst []byte, id string, code ResultCode, text string, maxError []float64) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, id)
	dst = append(dst, `,"error":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"error_string":`...)
	dst = appendString(dst, text)
	dst = append(dst, `,"max_error":[`...)
	for i, x := range maxError {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendNarrow(dst, x)
	}
	return append(dst, `]}`...)
}
