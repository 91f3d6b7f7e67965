// Command holdfast shows Holdfast at work, and looks after the locks on a
// server. Type
//
//	holdfast --help
//
// for its commands, and holdfast COMMAND --help for each of them.
//
// The command is a module of its own, so that its dependencies (cobra, SQLite,
// database drivers, an embedded server) do not reach users of the library. A
// replace directive ties it to the library beside it, and go.work in the root
// makes go run ./cmd/holdfast work there. The Makefile sets GOWORK=off, so each
// module is tested with its own go.mod. go install of a release works once the
// replace directive is gone from its tag.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, os.Getenv}))
}
