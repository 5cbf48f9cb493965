//go:build !windows

package main

import "syscall"

// addressInUse is what Listen fails with at an address where someone listens.
const addressInUse = syscall.EADDRINUSE
