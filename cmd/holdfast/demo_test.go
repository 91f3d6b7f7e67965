package main_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	_ "modernc.org/sqlite" // SQLite

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// smallSale are the flags of a short sale.
var smallSale = []string{"--shops", "2", "--buyers", "60", "--stock", "10"}

// A demoReport is the JSON output of demo.
type demoReport struct {
	Seed, Shops, Buyers, Clicks, Stock int
	Server, Database                   string
	Embedded, OK                       bool
	Ways                               []struct {
		Way, Title, Why                                                                       string
		Sold, Oversold, Unsold, DoubleOrders, LostUpdates, Refused, PausedShop, SoldMeanwhile int
		OrdersPerSecond, P50Ms, P99Ms, DurationMs, PauseMs                                    float64
		Spotless, MustBeSpotless                                                              bool
	}
}

// wantSale checks the output of demo --json: the ways with Holdfast are spotless,
// and the ways that must fail have failed.
func (r result) wantSale(t *testing.T) demoReport {
	t.Helper()
	r.want(t, 0, "^{.*}\n$", "")
	var b demoReport
	d := json.NewDecoder(strings.NewReader(r.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		t.Fatal(err)
	}
	if !b.OK || len(b.Ways) == 0 {
		t.Errorf("%+v", b)
	}
	for _, w := range b.Ways {
		t.Logf("%-6s sold %d, oversold %d, double %d, lost %d, refused %d; %.0f/s, %.1f ms, %.1f ms; %.1f s", w.Way, w.Sold, w.Oversold, w.DoubleOrders, w.LostUpdates, w.Refused, w.OrdersPerSecond, w.P50Ms, w.P99Ms, w.DurationMs/1000)
		if clean := w.Oversold == 0 && w.Unsold == 0 && w.DoubleOrders == 0 && w.LostUpdates == 0 && w.Sold == min(b.Stock, b.Buyers); clean != w.Spotless {
			t.Errorf("%+v", w)
		}
		if w.P50Ms <= 0 || w.P99Ms < w.P50Ms || w.OrdersPerSecond <= 0 || w.DurationMs <= 0 || w.Why == "" || w.Title == "" {
			t.Errorf("%+v", w)
		}
		switch ours := w.Way == "mutex" || w.Way == "fenced"; {
		case ours != w.MustBeSpotless || ours && !w.Spotless:
			t.Errorf("%+v", w)
		case w.Way == "none" && w.Oversold == 0, w.Way == "paused" && w.LostUpdates == 0:
			t.Errorf("nothing went wrong: %+v", w)
		case w.Way == "fenced" && w.Refused == 0:
			t.Errorf("no waitLimit write was refused: %+v", w)
		case (w.Way == "paused" || w.Way == "fenced") != (w.PausedShop > 0 && w.PauseMs >= 2000):
			t.Errorf("%+v", w)
		}
	}
	return b
}

// TestDemo runs the demo like a new user: without flags, on a terminal, and with a
// command without the race detector. It does not run in parallel with other tests.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	raced := binary
	program, err := unraced()
	if err != nil {
		t.Fatal(err)
	}
	binary = program
	defer func() { binary = raced }()
	began := time.Now()
	p := startTerminal(t, 80, 40, []string{"TMPDIR=" + dir}, "demo")
	for i := range 3 {
		p.awaitOutput(t, fmt.Sprintf("\r%d/5", i+1)) // one after the other
	}
	p.awaitOutput(t, `4/5 \+ paused shop \x1b\[32m━.*shop \d is stopped\x1b`) // a moving progress bar
	r := p.wait(t)
	took := time.Since(began)
	shown := strings.ReplaceAll(r.out[:strings.Index(r.out, "\r1/5")]+r.out[strings.LastIndex(r.out, "\x1b[K")+3:], "\r", "")
	plain := regexp.MustCompile(`\x1b\[\d*m`).ReplaceAllString(shown, "")
	t.Logf("it took %.1f s\n%s", took.Seconds(), plain)
	faults, none := ` +[0-9,]*[1-9][0-9,]*`, ` +0`
	rest := ` +[0-9,]+ +[0-9.]+ m?s +[0-9.]+ m?s +`
	for _, pattern := range []string{
		`no lock` + faults + faults + faults + faults + rest + `broken`,
		`Holdfast +100` + none + none + none + rest + `spotless`,
		`\+ paused shop` + faults + faults + ` +[0-9]+` + faults + rest + `unfenced`,
		`\+ fencing +100` + none + none + none + rest + `spotless`,
		`--seed \d+ repeats`,
		`2,000 buyers`,
	} {
		if !regexp.MustCompile(pattern).MatchString(plain) {
			t.Errorf("no %q", pattern)
		}
	}
	if !strings.Contains(shown, "\x1b[31mbroken") || !strings.Contains(shown, "\x1b[32mspotless") {
		t.Errorf("no colours: %q", shown)
	}
	for line := range strings.Lines(plain) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if r.status != 0 || took > 2*time.Minute { // the help promises half a minute; the machine may be busy
		t.Errorf("status %d after %v", r.status, took)
	}
	wantNothingLeft(t, dir)
}

// TestDemoEmbedded runs a small demo with the embedded server and JSON output.
func TestDemoEmbedded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := executeWith(t, []string{"TMPDIR=" + dir}, "", append(smallSale, "demo", "--server", "embedded", "--json", "--seed", "7")...).wantSale(t)
	if b.Seed != 7 || b.Shops != 2 || b.Buyers != 60 || b.Stock != 10 || b.Clicks <= 60 || !b.Embedded || b.Database != "SQLite" || len(b.Ways) != 5 {
		t.Errorf("%+v", b)
	}
	wantNothingLeft(t, dir)
}

// TestDemoOne checks the texts for one coupon and one buyer.
func TestDemoOne(t *testing.T) {
	t.Parallel()
	execute(t, "demo", "--server", "embedded", "--buyers", "1", "--stock", "1", "--seed", "1", "--only", "mutex").want(t, 0,
		`^A flash sale: 1 coupon, one per person. 1 buyer, [123] clicks?\.\n.*Holdfast +1 +0 +0 +0 .*spotless`, "")
}

// TestDemoURL checks that the demo removes its keys on a given server, and no other
// keys.
func TestDemoURL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SET", "mine", "1")
	r := executeWith(t, []string{"HOLDFAST_URL=" + s.URL() + "?timeout=20s"}, "", append(smallSale, "demo", "--only", "setnx,mutex")...)
	r.want(t, 0, `on your\s+server.*naive SETNX.*Holdfast +10 +0 +0 +0 .*spotless`, "")
	if strings.Contains(r.out, "\x1b") || strings.Contains(r.out, "paused") {
		t.Errorf("%q", r.out)
	}
	demoKeys(t, s)
}

// demoKeys checks that only the user's own key is left.
func demoKeys(t *testing.T, s *redistest.Server) {
	t.Helper()
	if keys := fmt.Sprint(s.Do(t, "KEYS", "*")); keys != "[mine]" {
		t.Errorf("keys: %s", keys)
	}
}

// TestDemoServerErrors checks the exit status of server errors in a shop process.
func TestDemoServerErrors(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "weak", "on", ">pw", "~app:*", "+@all")
	execute(t, append(smallSale, "demo", "--only", "mutex", "--url", "redis://weak:pw@"+s.Addr())...).want(t, 122, "*",
		`^holdfast: Holdfast's mutex: shop \d: .*NOPERM.*\nRun holdfast doctor NAME to see which permissions`)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 1") // its master does not exist, so that it does not load data
	execute(t, append(smallSale, "demo", "--only", "none", "--url", replica.URL())...).want(t, 122, "*", `is a read-only replica of 127\.0\.0\.1:1: connect to the master`)
}

// TestDemoNotSpotless deletes the lock repeatedly and checks that the demo reports
// the wrong result.
func TestDemoNotSpotless(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := start(t, []string{"HOLDFAST_URL=" + s.URL() + "?timeout=20s"}, "demo", "--buyers", "300", "--stock", "100", "--only", "mutex", "--json")
	for running := true; running; {
		select {
		case <-p.ended:
			running = false
		case <-redistest.Outage(time.Millisecond, func() { s.Do(t, "FLUSHALL") }, nil):
		}
	}
	r := p.wait(t)
	r.want(t, 1, `"spotless":false.*"ok":false`, `holdfast: Holdfast's mutex must be spotless, but has errors: .*lost updates`)
}

// TestDemoInterrupted sends Ctrl-C while a shop is stopped. All processes, keys and
// files must be removed.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SET", "mine", "1")
	dir := t.TempDir()
	p := startTerminal(t, 100, 30, []string{"HOLDFAST_URL=" + s.URL(), "TMPDIR=" + dir}, "demo", "--only", "paused", "--stock", "1000") // so that the other shops still sell
	p.awaitOutput(t, "is stopped")
	if n := len(demoProcesses(t, dir)); n < 4 {
		t.Errorf("%d processes, want the command and 3 shops", n)
	}
	_, _ = p.in.Write([]byte{3})
	r := p.wait(t)
	if r.status != 130 || strings.Contains(r.out, "holdfast:") {
		t.Errorf("status %d:\n%s", r.status, r.out)
	}
	demoKeys(t, s)
	wantNothingLeft(t, dir)
}

// TestDemoKilled checks that shops and server end when the command is killed.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("requires /proc")
	}
	dir := t.TempDir()
	p := startTerminal(t, 100, 30, []string{"TMPDIR=" + dir}, "demo", "--only", "paused")
	p.awaitOutput(t, "is stopped")
	p.signal(t, syscall.SIGKILL)
	eventually(t, "all processes are gone", func() bool { return len(demoProcesses(t, dir)) == 0 })
}

// wantNothingLeft checks that no files and processes of a demo are left.
func wantNothingLeft(t *testing.T, dir string) {
	t.Helper()
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("files: %v, %v", files, err)
	}
	eventually(t, "all processes are gone", func() bool { return len(demoProcesses(t, dir)) == 0 })
}

// demoProcesses returns the processes whose temporary files are in dir.
func demoProcesses(t *testing.T, dir string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if env, err := os.ReadFile(f); err == nil && strings.Contains(string(env), "TMPDIR="+dir+"\x00") {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}

// TestDemoCompletion checks the completion of flag values. The shell must not offer
// file names.
func TestDemoCompletion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--server": `^auto\nembedded\nreal\n:4\n$`,
		"--only":   `^none\nsetnx\nmutex\npaused\nfenced\n:4\n$`,
		"":         `^:4\n$`,
	} {
		execute(t, append([]string{"__complete", "demo"}, append(strings.Fields(args), "")...)...).want(t, 0, want, "*")
	}
}

func TestDemoMisused(t *testing.T) {
	t.Parallel()
	const addr = "127.0.0.1:1" // no server uses this port
	for _, test := range []struct {
		args   string
		status int
		err    string
	}{
		{"--shops 1", 2, "--shops is 1: it must be between 2 and 20"},
		{"--buyers 0", 2, "--buyers is 0"},
		{"--stock -1", 2, "--stock is -1"},
		{"--only nothing", 2, "unknown way nothing: choose from none, setnx, mutex, paused, fenced"},
		{"--server nonsense", 2, "auto, embedded or real"},
		{"--server real --url redis://" + addr, 2, "omit --server"},
		{"--seed x", 2, "seed"},
		{"--db oracle://x", 2, "--db: it must be sqlite"},
		{"--db sqlite:/no/such/dir/x.db --server embedded", 1, "cannot use the database"},
		{"--db postgres://u:s3cret@" + addr + "/x --server embedded", 1, "cannot use the database: .*refused"},
		{"--db mysql://u:s3cret@" + addr + "/x --server embedded", 1, "cannot use the database: .*refused"},
		{"--db postgres://u:s3cret@" + addr + "/x?pool=%zz --server embedded", 1, "cannot use the database"},
		{"--url redis://:s3cret@" + addr, 122, "Is the server running"},
		{"more", 2, "takes no arguments"},
	} {
		r := execute(t, append([]string{"demo"}, strings.Fields(test.args)...)...)
		r.want(t, test.status, "", test.err)
		if strings.Contains(r.err, "s3cret") {
			t.Errorf("%s: the password is in %q", test.args, r.err)
		}
	}
	r := executeWith(t, nil, "nonsense\n", "demo-shop")
	r.want(t, 1, "", "run holdfast demo instead")
}

// TestDemoFile checks that an existing database file keeps its contents, and that a
// new file is removed.
func TestDemoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old.db"), filepath.Join(dir, "fresh.db")
	db, err := sql.Open("sqlite", old)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE mine (n INT); INSERT INTO mine VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{old, fresh} {
		b := execute(t, append(smallSale, "demo", "--server", "embedded", "--json", "--only", "mutex", "--db", "sqlite:"+file)...).wantSale(t)
		if len(b.Ways) != 1 {
			t.Errorf("%+v", b)
		}
	}
	var tables, mode string
	if err := db.QueryRow("SELECT group_concat(name) FROM sqlite_master").Scan(&tables); err != nil || tables != "mine" {
		t.Errorf("tables %q, %v", tables, err)
	}
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "delete" {
		t.Errorf("journal mode %q, %v", mode, err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("files: %v", files)
	}
}
