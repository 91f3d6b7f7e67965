//go:build !unix

package main

import "errors"

const memorySize = 0

func attach(string) (*memory, error) {
	return nil, errors.New("the peer benchmark needs memory that processes share: run it on a Unix system")
}

func (*memory) detach() error { return nil }
