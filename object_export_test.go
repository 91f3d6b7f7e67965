package holdfast

import "github.com/holdfast-go/holdfast/internal/script"

// Pair returns an object of two keys, those of a generator of ids, for tests of
// what concerns any object of several keys.
func (c *Client) Pair(name string) *Object {
	o := newObject(c, "id generator", name, nil)
	return o.asObject(script.GeneratorShape)
}
