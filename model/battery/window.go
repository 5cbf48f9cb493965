package battery

// length is the number of steps over which Gazebo's legacy estimator adds up the drawn charge.
const length = 100

// window is the sum of the last hundred charges, added oldest first as Gazebo does. The order decides the
// last bits, so no term can be subtracted when it leaves. Adding all anew at each step would be a chain of
// a hundred additions, each of which waits for the one before. Instead every start of a window has a sum of its own: a
// new charge is added to all of them, independently of each other, and the sum that began a hundred steps
// ago is complete and gives way to a new one.
type window struct {
	sums  [length]float64
	next  int // the slot where the next sum begins
	steps int // charges taken, up to length
}

// sum takes a charge and returns the sum over the window.
func (w *window) sum(charge float64) float64 {
	w.sums[w.next] = 0
	for i := 0; i < length; i += 4 { // by fours, which takes a third less time
		s := w.sums[i : i+4 : i+4]
		s[0] += charge // a slot that has not begun yet holds anything: it is cleared when it begins
		s[1] += charge
		s[2] += charge
		s[3] += charge
	}
	if w.next++; w.next == length {
		w.next = 0
	}
	if w.steps < length {
		w.steps++
	}
	if w.steps < length {
		return w.sums[0]
	}
	return w.sums[w.next]
}

// empty forgets everything.
func (w *window) empty() { w.next, w.steps = 0, 0 }
