package main_test

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args     []string
		status   int
		out, err string
	}{
		{nil, 0, `Try Holdfast:.*Run programs:.*Inspect and manage locks:.*Other commands:`, ""},
		{[]string{"--help"}, 0, "Examples:", ""},
		{[]string{"help"}, 0, "Examples:", ""},
		{[]string{"help", "serve"}, 0, "^Serve starts", ""},
		{[]string{"help", "nonsense"}, 2, "", `^holdfast: unknown command: nonsense\n`},
		{[]string{"--version"}, 0, `^holdfast \S+.* \(go1\.`, ""},
		{[]string{"nonsense"}, 2, "", `^holdfast: unknown command: nonsense\n.*--help`},
		{[]string{"srve"}, 2, "", `^holdfast: unknown command: srve\nDid you mean serve\?\n$`},
		{[]string{"docter", "--nonsense"}, 2, "", `^holdfast: unknown command: docter\nDid you mean doctor\?\n$`},
		{[]string{"\x1b]0;title\a"}, 2, "", `^holdfast: unknown command: \\x1b\]0;title\\a\n`},
		{[]string{"redis://:secret@localhost"}, 2, "", `^holdfast: unknown command: a URL \(use --url for it\)\n`},
		{[]string{"--nonsense"}, 2, "", `^holdfast: unknown flag: --nonsense\nRun holdfast --help to list its flags\.\n$`},
		{[]string{"--\x1b[2J"}, 2, "", `^holdfast: unknown flag: --\\x1b\[2J\n`},
		{[]string{"serve", "--nonsense"}, 2, "", `^holdfast: unknown flag: --nonsense\nRun holdfast serve --help to list its flags\.\n$`},
		{[]string{"serve", "one"}, 2, "", `^holdfast: holdfast serve takes no arguments, got one\n`},
		{[]string{"serve", "redis://:secret@localhost"}, 2, "", `^holdfast: holdfast serve takes no arguments, got a URL \(use --url for it\)\n`},
		{[]string{"ls", "-url=redis://:secret@localhost"}, 2, "", `^holdfast: unknown shorthand flag: 'u' in -url=redis://\.\.\.@localhost\n`},
		{[]string{"ls", "one", "redis://me:secret@localhost"}, 2, "", `redis://\.\.\.@localhost`},
		{[]string{"run", "one", "--wait", "redis://me:secret@localhost", "--", "true"}, 2, "", `redis://\.\.\.@localhost.*redis://\.\.\.@localhost`},
		{[]string{"ls", "--config", "redis://me:secret@localhost"}, 2, "", `^holdfast: --config takes a file: use --url for a URL\n`},
	} {
		r := execute(t, tt.args...)
		r.want(t, tt.status, tt.out, tt.err)
		if strings.Contains(r.err, "secret") {
			t.Error("the output contains a password:", r.err)
		}
	}
}

// TestServerErrors tests errors that all commands share, with one command.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	guarded := redistest.Start(t, "--requirepass", "right").Addr()
	const free = "127.0.0.1:1" // no server uses this port
	for _, tt := range []struct {
		url    string
		status int
		says   string
	}{
		{"redis://:secret@" + free, 122, `^holdfast: open: .*` + free + `.*refused\nIs the server running\? .*--url or HOLDFAST_URL.*holdfast serve`},
		{"redis://:secret@" + guarded + "?timeout=20s&dial_timeout=20s", 122, `^holdfast: open: .*WRONGPASS.*\nSet a user and a password that the server accepts: HOLDFAST_URL=`},
		{"redis://" + guarded + "?timeout=20s&dial_timeout=20s", 122, `^holdfast: open: .*NOAUTH.*\nSet a user and a password`},
		{"rediss://:secret@" + redistest.StartWith(t, redistest.WithTLS()).Addr() + "?timeout=20s&dial_timeout=20s", 122, `^holdfast: open: .*certificate.*\nName the CA .*tls_ca=`},
		{"redis//:secret@localhost", 2, `^holdfast: open: invalid argument: .*write redis://host:port\n`},
		{"http://:secret@localhost", 2, `^holdfast: open: invalid argument: `},
		{"redis://localhost?secret=secret", 2, `^holdfast: open: invalid argument: `},
	} {
		for _, r := range []result{execute(t, "doctor", "--url", tt.url), executeWith(t, []string{"HOLDFAST_URL=" + tt.url}, "", "doctor")} {
			r.want(t, tt.status, "", tt.says)
			if strings.Contains(strings.ReplaceAll(r.err, "sentinel", ""), ":secret") || strings.Contains(r.err, "=secret") {
				t.Error("the output contains a password:", r.err)
			}
		}
	}
	execute(t, "doctor", "--url", "redis://localhost", "--config", "file").want(t, 2, "", "--url and --config exclude each other")
}

// complete returns the completions for the shell.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	var offers []string
	for line := range strings.Lines(execute(t, append([]string{"__complete"}, words...)...).out) {
		if offer, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); offer != "" && !strings.HasPrefix(offer, ":") {
			offers = append(offers, offer)
		}
	}
	return offers
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for shell, has := range map[string]string{"bash": "complete -o default", "zsh": "#compdef holdfast", "fish": "complete -c holdfast", "powershell": "Register-ArgumentCompleter"} {
		execute(t, "completion", shell).want(t, 0, regexp.QuoteMeta(has), "")
	}
	for _, tt := range []struct{ words, want []string }{
		{[]string{"se"}, []string{"serve"}},
		{[]string{"serve", "--server", ""}, []string{"auto", "embedded", "real"}},
		{[]string{"bench", "--kind", ""}, []string{"mutex", "fair mutex", "fenced mutex", "read/write mutex"}},
		{[]string{"doctor", "--fail-at", ""}, []string{"info", "warning", "danger"}},
		{[]string{"doctor", "--url", ""}, nil},
		{[]string{"serve", "--se"}, []string{"--server"}},
	} {
		if got := complete(t, tt.words...); !slices.Equal(got, tt.want) {
			t.Errorf("%q offers %q, want %q", tt.words, got, tt.want)
		}
	}
}

// TestHelp checks that every command is in the list of commands and has a help text
// and examples with valid flags.
func TestHelp(t *testing.T) {
	t.Parallel()
	list := execute(t, "--help").out
	commands := complete(t, "")
	if len(commands) < 4 {
		t.Fatalf("too few commands: %q", commands)
	}
	if strings.Contains(list, "Additional Commands") {
		t.Errorf("a command is in no group:\n%s", list)
	}
	helps := map[string]string{"": list}
	for _, c := range commands {
		r := execute(t, c, "--help")
		r.want(t, 0, ".", "")
		helps[c] = r.out
		if !regexp.MustCompile(`(?m)^  ` + c + ` +\S+ \S+`).MatchString(list) {
			t.Errorf("%s has no short text in:\n%s", c, list)
		}
	}
	for c, help := range helps {
		text, rest, _ := strings.Cut(help, "\nUsage:\n")
		_, examples, _ := strings.Cut(rest, "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		if len(text) < 60 || examples == "" && c != "completion" {
			t.Errorf("the help of %q has no text or no examples:\n%s", c, help)
		}
		for line := range strings.Lines(help) {
			if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 {
				t.Errorf("the help of %q has a line that is too long: %s", c, line)
			}
		}
		for line := range strings.Lines(examples) {
			checkExample(t, helps, strings.Fields(line))
		}
	}
}

// checkExample checks that the flags of an example exist.
func checkExample(t *testing.T, helps map[string]string, words []string) {
	t.Helper()
	i := slices.Index(words, "holdfast")
	if i < 0 || i+1 == len(words) {
		t.Errorf("the example does not call holdfast with a command: %q", words)
		return
	}
	help, ok := helps[words[i+1]]
	if !ok {
		t.Logf("the example %q uses an unknown command", words)
		return
	}
	_, flags, _ := strings.Cut(help, "\nFlags:\n")
	for _, w := range words[i+2:] {
		if w == "--" || w == "#" || w == "|" {
			break
		}
		if flag, _, _ := strings.Cut(w, "="); strings.HasPrefix(w, "-") && !regexp.MustCompile(`(^|[ ,])`+flag+`[ \n]`).MatchString(flags) {
			t.Errorf("the example %q has the flag %s, which is not among:\n%s", words, flag, flags)
		}
	}
}

// TestColours checks that the commands use colours on a terminal only.
func TestColours(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := s.URL()
	lsHold(t, lsOpen(t, s).Mutex("orders"))
	painted := regexp.MustCompile("\x1b\\[[1-9][0-9;]*m") // 0 resets the colour
	for name, args := range map[string][]string{
		"doctor": {"doctor", "--url", url},
		"bench":  {"bench", "--url", url, "--for", "200ms"},
		"ls":     {"ls", "--url", url},
		"show":   {"show", "orders", "--url", url},
		"watch":  {"watch", "--count", "1", "--url", url},
		"demo":   {"demo", "--url", url, "--only", "mutex", "--buyers", "5", "--stock", "2"},
		"serve":  {"serve", "--server", "embedded", "--addr", "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output := func(p *process) string {
				if name == "serve" {
					p.awaitOutput(t, "This is an embedded server")
					p.signal(t, syscall.SIGINT)
				}
				r := p.wait(t)
				return r.out + r.err
			}
			if out := output(startTerminal(t, 100, 30, nil, args...)); !painted.MatchString(out) {
				t.Errorf("no colours on a terminal: %q", out)
			}
			for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
				if out := output(startTerminal(t, 100, 30, []string{env}, args...)); painted.MatchString(out) {
					t.Errorf("colours with %s: %q", env, out)
				}
			}
			if out := output(start(t, nil, args...)); strings.Contains(out, "\x1b") {
				t.Errorf("escape sequences without a terminal: %q", out)
			}
		})
	}
}

// TestProgressNarrow checks that a progress line fits into the terminal: a longer
// line would wrap and not be overwritten completely.
func TestProgressNarrow(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	drawn, sgr := regexp.MustCompile("\r([^\r\n]*━[^\r\n]*)\x1b\\[K"), regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, columns := range []uint16{30, 40, 60} {
		for _, args := range [][]string{
			{"bench", "--for", "500ms"},
			{"demo", "--only", "mutex", "--buyers", "60", "--stock", "30"},
		} {
			p := startTerminal(t, columns, 30, nil, append(args, "--url", url)...)
			lines := drawn.FindAllStringSubmatch(p.wait(t).out, -1)
			if len(lines) == 0 {
				t.Errorf("%s: no progress", args[0])
			}
			for _, l := range lines {
				if line := sgr.ReplaceAllString(l[1], ""); term.Width(line) > int(columns) {
					t.Errorf("%d columns: %q has %d", columns, line, term.Width(line))
				}
			}
		}
	}
}
