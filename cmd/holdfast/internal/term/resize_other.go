//go:build !unix

package term

// resized returns a nil channel: the next update uses the new size.
func resized() (changes <-chan struct{}, stop func()) { return nil, func() {} }
