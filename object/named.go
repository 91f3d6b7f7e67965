package object

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
)

// named is the common part of all types of this package.
type named struct{ object access.Named } // nil: the zero value of the type

func newNamed(client *holdfast.Client, kind, name string) named {
	return named{access.New(client, kind, name, nil)}
}

// inner returns the object as package holdfast knows it.
func (o *named) inner() access.Named {
	if o.object == nil {
		return access.Zero
	}
	return o.object
}

// Name returns the name, without [holdfast.Options].NamePrefix.
func (o *named) Name() string { return o.inner().Name() }

// asObject returns the object with all of its keys on the server.
func (o *named) asObject() *Object { return newObject(access.Manage(o.inner())) }

var errMissing = fmt.Errorf("%w: it does not exist", holdfast.ErrNotFound)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{holdfast.ErrInvalid}, args...)...)
}
