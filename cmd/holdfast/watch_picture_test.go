package main_test

import (
	"context"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/vt"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var update = flag.Bool("update", false, "record docs/watch.svg again")

// picture is the file that README.md shows.
const picture = "../../docs/watch.svg"

// TestWatchPicture checks that the picture in README.md has the columns of watch.
// With -update it records a new picture: ten seconds of a server with several
// clients.
func TestWatchPicture(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := lsOpen(t, s), lsOpen(t, s)
	brief, err := holdfast.Open(t.Context(), s.URL(), &holdfast.Options{WatchdogTimeout: 9 * time.Second, Anonymous: true}) // the picture is public
	if err != nil {
		t.Fatal(err)
	}
	defer brief.Close()
	const columns, rows = 96, 13
	orders, report := lsHold(t, a.Mutex("order:42")), lsHold(t, a.FairMutex("nightly-report"))
	lsHold(t, b.FencedMutex("ledger"))
	stop := make(chan struct{})
	for range 2 {
		go func() {
			if l, err := b.FairMutex("nightly-report").Lock(t.Context()); err == nil {
				<-stop
				_ = l.Release(context.Background())
			}
		}()
	}
	for _, c := range []*holdfast.Client{a, b, brief} {
		lsHold(t, c.RWMutex("catalogue").RLocker())
	}
	p, _ := watchStart(t, columns, rows, "--url", s.URL(), "--every", "250ms")
	awaitScreen(t, p, columns, rows, `catalogue .*ledger .*nightly-report .*2 queued.*order:42 `)
	if !*update {
		recorded, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		if still := stillFrames(string(recorded)); len(still) != 1 || !strings.Contains(still[0], ">NAME<") {
			t.Errorf("without animation, %s shows %d frames, want 1 with locks: %q", picture, len(still), still)
		}
		for _, line := range strings.Split(awaitScreen(t, p, columns, rows, `Press q to quit`).Text(), "\n") {
			if !strings.HasPrefix(line, "NAME") {
				continue
			}
			for _, title := range strings.Split(line, "  ") {
				if title = strings.TrimSpace(title); !strings.Contains(string(recorded), ">"+title) {
					t.Errorf("no %q in %s: record it again with -update", title, picture)
				}
			}
		}
		return
	}
	steps := map[int]func(){
		2: func() { _ = orders.Release(t.Context()) },
		3: func() { lsHold(t, b.Mutex("invoice:7")) },
		4: func() { _ = report.Release(t.Context()) },
		5: func() { orders = lsHold(t, b.Mutex("order:42")) },
		6: func() { brief.Close() },
		7: func() { close(stop) },
	}
	var frames []vt.Frame
	for i := range 10 {
		if step := steps[i]; step != nil {
			step()
		}
		time.Sleep(time.Second)
		frames = append(frames, p.screen(columns, rows).Frame(time.Second))
	}
	if err := os.WriteFile(picture, []byte(vt.SVG("holdfast watch", frames...)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stillFrames returns the frames of a picture that are visible without animation.
func stillFrames(svg string) []string {
	style := regexp.MustCompile(`(?m)^@keyframes.*\n`).ReplaceAllString(svg, "")
	var frames []string
	for _, g := range regexp.MustCompile(`(?s)<g id="(\w+)"([^>]*)>(.*?)</g>`).FindAllStringSubmatch(svg, -1) {
		if !strings.Contains(style, "#"+g[1]+"{visibility:hidden") && !strings.Contains(g[2], `visibility="hidden"`) {
			frames = append(frames, g[3])
		}
	}
	return frames
}
