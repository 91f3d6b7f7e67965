// Package repo_test checks the repository: that pages are true and their code compiles,
// that packages import only what they may, and that the files of GitHub fit together.
// Paths are relative to the root of the module.
package repo_test

import (
	"log"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		log.Fatal(err)
	}
	locktest.Main(m, nil)
}
