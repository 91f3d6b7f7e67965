// Command servers runs the tests on other servers than the machine's own, and writes the
// results into the table of CONTRIBUTING.md:
//
//	go run ./test/servers [-suites list] [-keep] SERVER...
//
// SERVER is a program that HOLDFAST_TEST_SERVER accepts. `make servers` names all that
// scripts/servers has installed.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A suite is a column of the table: tests that run with the same settings.
type suite struct {
	name     string
	topology string
	dir      string
	packages []string
}

var (
	everywhere = []string{"./test/faults", "./test/behaviour", "./test/conformance", "./dashboard", "./inspect", "./fence"}
	suites     = []suite{
		{name: "single", topology: "single", packages: append(slices.Clone(everywhere), "./internal/script", "./internal/check", "./driver/...")},
		{name: "sentinel", topology: "sentinel", packages: everywhere},
		{name: "cluster", topology: "cluster", packages: everywhere},
		{name: "topology", packages: []string{"./test/topology", "./internal/redistest"}},
		{name: "redisson", dir: "interop", packages: []string{"./..."}},
	}
)

const page = "CONTRIBUTING.md"

func main() {
	names := flag.String("suites", "single,sentinel,cluster,topology", "the `suites` to run, of single, sentinel, cluster, topology and redisson")
	keep := flag.Bool("keep", false, "leave "+page+" as it is")
	flag.Parse()
	if err := run(flag.Args(), strings.Split(*names, ","), *keep); err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func run(servers, names []string, keep bool) error {
	if len(servers) == 0 {
		return fmt.Errorf("name a server program, or call make servers")
	}
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt) // ends go test, too
	failed := 0
	for _, server := range servers {
		version, err := versionOf(server)
		if err != nil {
			return err
		}
		for _, name := range names {
			i := slices.IndexFunc(suites, func(s suite) bool { return s.name == name })
			if i < 0 {
				return fmt.Errorf("unknown suite %q: use single, sentinel, cluster, topology or redisson", name)
			}
			fmt.Printf("== %s, %s\n", version, name)
			begin := time.Now()
			err := suites[i].run(server)
			if len(interrupt) > 0 {
				return fmt.Errorf("interrupted")
			}
			cell := fmt.Sprintf("%s, %s", begin.UTC().Format(time.DateOnly), time.Since(begin).Round(time.Second))
			if err != nil {
				failed++
				cell = "**failed** " + cell
			}
			fmt.Printf("== %s, %s: %s\n", version, name, cell)
			if keep {
				continue
			}
			if err := record(version, name, cell); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d suites failed", failed)
	}
	return nil
}

// versionOf asks a program what it is: "Valkey 9.1.2".
func versionOf(server string) (string, error) {
	out, err := exec.Command(server, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", server, err)
	}
	m := regexp.MustCompile(`^(\w+) server v=(\S+)`).FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s is not a server: it says %q", server, out)
	}
	return string(m[1]) + " " + string(m[2]), nil
}

func (s suite) run(server string) error {
	c := exec.Command("go", append([]string{"test", "-count=1", "-p", "3", "-parallel", "16", "-timeout", "20m"}, s.packages...)...)
	c.Env = append(os.Environ(), "HOLDFAST_TEST_SERVER="+server, "HOLDFAST_TEST_TOPOLOGY="+s.topology)
	c.Dir, c.Stdout, c.Stderr = s.dir, os.Stdout, os.Stderr
	return c.Run()
}

// record writes a result into the page.
func record(version, name, cell string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	changed, err := enter(string(text), version, name, cell)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(changed), 0o644)
}

// enter sets a cell of the table below the heading of the suites. A new version gets a row
// of its own. The rows are sorted.
func enter(text, version, name, cell string) (string, error) {
	lines := strings.Split(text, "\n")
	head := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "| server | single |") })
	if head < 0 {
		return "", fmt.Errorf("%s has no table that begins with | server | single |", page)
	}
	column := slices.Index(cells(lines[head]), name)
	if column < 0 {
		return "", fmt.Errorf("the table of %s has no column %s", page, name)
	}
	first := head + 2
	end := first
	for end < len(lines) && strings.HasPrefix(lines[end], "|") {
		end++
	}
	rows := slices.Clone(lines[first:end])
	i := slices.IndexFunc(rows, func(l string) bool { return cells(l)[0] == version })
	if i < 0 {
		i = len(rows)
		rows = append(rows, "| "+version+strings.Repeat(" |", len(cells(lines[head]))))
	}
	row := cells(rows[i])
	row[column] = cell
	rows[i] = "| " + strings.Join(row, " | ") + " |"
	slices.Sort(rows)
	return strings.Join(slices.Concat(lines[:first], rows, lines[end:]), "\n"), nil
}

func cells(line string) []string {
	cs := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cs {
		cs[i] = strings.TrimSpace(cs[i])
	}
	return cs
}
