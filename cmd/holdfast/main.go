// Command holdfast demonstrates Holdfast, runs programs under a lock, and
// inspects and manages the locks on a server. Run
//
//	holdfast --help
//
// to list its commands, and holdfast COMMAND --help for the help of one.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, os.Getenv}))
}
