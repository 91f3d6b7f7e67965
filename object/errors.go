package object

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// The errors of this package. Match them with [errors.Is]. All other errors are those of
// package holdfast.
var (
	// ErrCodec means that a [Codec] could not encode a value, in which case nothing was
	// sent, or could not decode the value on the server, which may be of another type
	// or from another codec. The text does not contain the value.
	ErrCodec = errors.New("codec")

	// ErrDump means that the argument of [Object.Restore] is not a dump of this
	// kind of object, or that the dump is damaged. Nothing was changed.
	ErrDump = errors.New("not a dump of this kind of object")

	// ErrNoEvents means that the server does not publish the events that
	// [Object.Listen] needs, or does not show whether it does. The text says
	// which setting to change.
	ErrNoEvents = engine.ErrNoEvents
)
