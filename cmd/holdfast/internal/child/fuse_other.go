//go:build !linux

package child

import "time"

// A Fuse does nothing on this system. On Linux it is a kernel timer.
type Fuse struct{}

// NewFuse returns nil.
func NewFuse() *Fuse { return nil }

// Set does nothing.
func (*Fuse) Set(time.Time) {}

// Out does nothing.
func (*Fuse) Out() {}
