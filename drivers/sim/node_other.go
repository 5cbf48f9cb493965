//go:build !linux

package sim

import (
	"context"
	"errors"

	"periph.io/x/conn/v3/i2c"
)

// Node is an I²C bus as a device node of this machine; on Linux only.
type Node struct{ path string }

// NewNode always fails: device nodes of I²C are Linux's.
func NewNode(path string, bus i2c.Bus, o NodeOptions) (*Node, error) {
	return nil, errors.New("I²C device nodes need Linux; sim: works everywhere")
}

// Path is where the node is.
func (n *Node) Path() string { return n.path }

// Serve returns at once.
func (n *Node) Serve(context.Context) error { return nil }

// Close does nothing.
func (n *Node) Close() error { return nil }
