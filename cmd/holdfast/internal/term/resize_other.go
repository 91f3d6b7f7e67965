//go:build !unix

package term

// resized tells nothing: the next picture has the new size.
func resized() (changes <-chan struct{}, stop func()) { return nil, func() {} }
