// Package seam is how package blobtxtest reaches what is not for users: it
// makes a Coordinator's randomness repeatable, so that a schedule can be
// replayed.
package seam

import "io"

// Random replaces the source of randomness of a *blobtx.Coordinator. It must be
// called before the Coordinator is used; reads come from one goroutine at a
// time only if the Coordinator's callers do. Set by package blobtx.
var Random func(coordinator any, source io.Reader)
