// Command releasecheck proves that the modules of this repository can be used
// outside of it.
//
// In a clone, go.work lets the nested modules use the library beside them.
// Dependents have no go.work, and they ignore replace directives. This program
// packs every released module, at the version in the file VERSION, into a
// module proxy on disk. With an empty module cache, without a workspace and
// without a network it then does three things for each of them:
//
//   - it builds the module with its own go.mod and go.sum,
//   - it builds a program that imports every package of the module,
//   - it installs every command of the module and runs it with --version.
//
// Packages below internal and test are for the repository only.
//
// Then it runs the lines in the section Install of README.md, each in a new
// module.
//
// All other modules come from the module cache of this machine. The program
// first lets the go command fetch what is missing there.
//
// It takes one optional argument, the root of the repository, and is run by
// make release-check. With -release it also checks all that a release needs, and
// tags the modules; it does not push. This is make release.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

// notReleased names the modules that nothing outside of this repository uses,
// and the reason.
var notReleased = map[string]string{
	"bench":              "holds only benchmarks",
	"test/simulation":    "holds only a simulation",
	"prom/rulestest":     "holds only the tests of the dashboard and the alert rules",
	"test/browser":       "holds only the tests of the dashboard",
	"tools":              "pins the linter of Go",
	"tools/actionlint":   "pins the linter of workflows",
	"tools/goreleaser":   "pins the program that builds the binaries",
	"tools/releasecheck": "is this program",
	"interop":            "holds only the tests with Redisson",
}

func main() {
	releasing := flag.Bool("release", false, "check and tag a release")
	version := flag.String("version", "", "with -release, the `version`")
	dry := flag.Bool("dry", false, "with -release, check but do not tag")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	check := func() error { return run(root, notReleased) }
	if *releasing {
		check = func() error { return release{*version, *dry, makeTest, notReleased}.run(root) }
	}
	if err := check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Fprintln(os.Stderr, "releasecheck: failed")
		os.Exit(1)
	}
}

// run checks the repository at root. The keys of ignored are the directories of
// the modules that are not released.
func run(root string, ignored map[string]string) (err error) {
	r, err := open(root, ignored)
	if err != nil {
		return err
	}
	if problems := r.problems(); len(problems) > 0 {
		return errors.Join(problems...)
	}
	tmp, err := os.MkdirTemp("", "releasecheck")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	o, err := newOutside(r, tmp)
	if err != nil {
		return err
	}
	var failed []error
	var commands []string
	for _, m := range r.modules {
		if m.released {
			found, err := o.check(m)
			commands = append(commands, found...)
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return o.readme(commands)
}
