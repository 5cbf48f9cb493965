//go:build !unix

package line

// lock does nothing: Windows opens a serial port for one process alone.
func lock(string) (release func() error, err error) { return func() error { return nil }, nil }
