package topology_test

import (
	"flag"
	"os"
	"testing"
)

// The tests mostly wait: for leases to end, for servers to be replaced. Four at
// a time keep two processors half busy.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // unless the command line says otherwise
	os.Exit(m.Run())
}
