// Command holdfast shows Holdfast at work, and looks after the locks on a
// server. Type
//
//	holdfast --help
//
// for its commands, and holdfast COMMAND --help for each of them.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, os.Getenv}))
}
