package fence_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	switch name := redistest.WorkerName(); name {
	case "":
		os.Exit(m.Run())
	case "clerk":
		clerk()
	default:
		fmt.Fprintf(os.Stderr, "no worker %q\n", name)
		os.Exit(2)
	}
}
