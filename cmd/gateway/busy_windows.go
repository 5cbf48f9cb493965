package main

import "golang.org/x/sys/windows"

// addressInUse is what Listen fails with at an address where someone listens. Package syscall's EADDRINUSE is
// a number of Go's own on Windows, which no system call gives.
const addressInUse = windows.WSAEADDRINUSE
