// Package family lets packages of this module build on the insides of package
// holdfast without making these public: holdfast sets the variables, and its
// relatives use them. The types are any where naming them would make a circle.
package family

import "time"

// NewQuorum returns the function that makes a lock by its name and options
// (holdfast.Option) on several clients ([]*holdfast.Client): a holdfast.Locker.
var NewQuorum func(clients any, servers int, nodeTimeout, longestLease time.Duration) (lock func(name string, opts any) any, err error)
