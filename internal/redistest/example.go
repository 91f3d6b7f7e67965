package redistest

import (
	"fmt"
	"log"
	"os"
	"testing"
)

// ExampleURL returns the URL of the server for the examples of a package: the
// value of REDIS_URL if it is set, else the URL of [Shared].
func ExampleURL() string {
	if url := os.Getenv("REDIS_URL"); url != "" {
		return url
	}
	return Shared(Example).URL()
}

// Example is the [testing.TB] of an example.
var Example testing.TB = exampleTB{}

type exampleTB struct{ testing.TB }

func (exampleTB) Helper()                   {}
func (exampleTB) Logf(string, ...any)       {}
func (exampleTB) Cleanup(func())            {}
func (exampleTB) Fatal(args ...any)         { log.Fatal(args...) }
func (exampleTB) Fatalf(f string, a ...any) { log.Fatalf(f, a...) }
func (exampleTB) Skip(...any)               { fmt.Println("skipped") }
