package sale_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/sale"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/server"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestMain runs the tests, or a shop if the variable is set.
func TestMain(m *testing.M) {
	switch os.Getenv(shopVariable) {
	case "":
		os.Exit(m.Run())
	case "mute":
		if err := os.WriteFile(os.Getenv(startedVariable), nil, 0o600); err != nil {
			panic(err)
		}
		time.Sleep(time.Hour)
	case "gone":
		_, _ = os.Stderr.WriteString("no money\n")
		os.Exit(3)
	}
	err := sale.Serve(context.Background(), os.Stdin, os.Stdout, func(ctx context.Context, j sale.Job, o holdfast.Options) (*holdfast.Client, error) {
		return holdfast.Open(ctx, j.URL, &o)
	})
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

const (
	shopVariable    = "HOLDFAST_SALE_SHOP"
	startedVariable = "HOLDFAST_SALE_STARTED" // the file that a mute shop writes
)

// market returns a Market with its own server and database for a small sale.
func market(t *testing.T, shop string) *sale.Market {
	t.Helper()
	s, err := server.Start(t.Context(), server.Embedded, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	url := s.URL + "?timeout=20s" // the default of 2 s is too short for a busy machine
	client, err := holdfast.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	d, forget, err := sale.Locate("sqlite:"+filepath.Join(t.TempDir(), "odd name?#%41.db"), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(forget)
	m := &sale.Market{
		Crowd: sale.Crowd{Seed: 7, Shops: 3, Buyers: 60, Stock: 20}, Client: client, Names: "sale", URL: url, DB: d,
		Progress: func(float64, string) {},
		Shop: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), shopVariable+"="+shop, "GORACE=atexit_sleep_ms=0")
			return cmd
		},
	}
	if err := m.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func way(t *testing.T, name string) sale.Way {
	t.Helper()
	ways, err := sale.Choose([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return ways[0]
}

// TestHold runs the sale in all ways. The result is wrong without a lock and correct
// with one. A stopped shop makes it wrong again, unless the guard checks the tokens.
func TestHold(t *testing.T) {
	t.Parallel()
	m := market(t, "sell")
	for _, w := range sale.Ways() {
		r, err := m.Hold(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: sold %d in %v, paused %v; %s", w.Name, r.Sold, r.Took, r.Pause, r.Faults())
		switch {
		case w.Ours && !r.Spotless():
			t.Errorf("%s: %s", w.Name, r.Faults())
		case w.Name == "none" && (r.Oversold() == 0 || r.Lost() == 0):
			t.Error("the result is correct without a lock")
		case w.Pause && (r.Paused == 0 || r.Pause < 2*time.Second || r.Meanwhile == 0):
			t.Errorf("%s: shop %d was stopped for %v, and %d were sold in the meantime", w.Name, r.Paused, r.Pause, r.Meanwhile)
		case w.Name == "paused" && r.Lost() == 0:
			t.Error("the late write had no effect")
		case w.Name == "fenced" && r.Refused == 0:
			t.Error("the late write was not refused")
		}
		if len(r.Why()) < 40 || r.Quantile(0.5) > r.Quantile(0.99) || r.Quantile(0.5) <= 0 || r.PerSecond() <= 0 {
			t.Errorf("%s: %v, %v, %v, %q", w.Name, r.Quantile(0.5), r.Quantile(0.99), r.PerSecond(), r.Why())
		}
	}
}

// TestHoldFew checks that a shop is stopped even with few buyers, and that the
// explanation is correct.
func TestHoldFew(t *testing.T) {
	t.Parallel()
	m := market(t, "sell")
	m.Crowd = sale.Crowd{Seed: 4, Shops: 3, Buyers: 3, Stock: 100}
	r, err := m.Hold(t.Context(), way(t, "paused"))
	if err != nil || r.Paused == 0 || r.Pause < 2*time.Second {
		t.Errorf("shop %d was stopped for %v: %v", r.Paused, r.Pause, err)
	}
	if r.Oversold() > 0 || r.Spotless() != (r.Lost() == 0) || strings.Contains(r.Why(), "sold a second time") {
		t.Errorf("%s: %s", r.Faults(), r.Why())
	}
}

// TestShopGone checks that the error of a shop that ends has its error output.
func TestShopGone(t *testing.T) {
	t.Parallel()
	_, err := market(t, "gone").Hold(t.Context(), way(t, "mutex"))
	if err == nil || !strings.Contains(err.Error(), "no money") {
		t.Error(err)
	}
}

// TestShopMute checks that a shop that does not exit is killed.
func TestShopMute(t *testing.T) {
	t.Parallel()
	m := market(t, "mute")
	m.SetCloseTimeout(200 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shop, dir, shops := m.Shop, t.TempDir(), 0
	m.Shop = func() *exec.Cmd {
		started := filepath.Join(dir, strconv.Itoa(shops))
		if shops++; shops == m.Shops {
			go func() {
				redistest.Poll(time.Minute, func() bool { _, err := os.Stat(started); return err == nil })
				cancel()
			}()
		}
		c := shop()
		c.Env = append(c.Env, startedVariable+"="+started)
		return c
	}
	if _, err := m.Hold(ctx, way(t, "mutex")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestCrowd checks that the same seed makes the same clicks, and another seed makes
// others.
func TestCrowd(t *testing.T) {
	t.Parallel()
	c := sale.Crowd{Seed: 1, Shops: 3, Buyers: 500, Stock: 10}
	queues := c.Queues()
	if !reflect.DeepEqual(queues, c.Queues()) {
		t.Error("the same seed makes different clicks")
	}
	clicks, slow := make(map[int]map[int]int), 0
	for shop, q := range queues {
		for _, click := range q {
			if clicks[click.Buyer] == nil {
				clicks[click.Buyer] = make(map[int]int)
			}
			clicks[click.Buyer][shop]++
			if click.Pay > sale.SETNXExpiry {
				slow++
			}
		}
	}
	if len(clicks) != 500 {
		t.Errorf("%d of 500 buyers come", len(clicks))
	}
	several := 0
	for buyer, shops := range clicks {
		for shop, n := range shops {
			if n > 1 {
				t.Errorf("buyer %d clicks %d times at shop %d", buyer, n, shop)
			}
		}
		if len(shops) > 1 {
			several++
		}
	}
	if several < 250 || several == 500 || slow < c.Clicks()/25 {
		t.Errorf("%d buyers go to several shops, %d payments of %d are slow", several, slow, c.Clicks())
	}
	c.Seed = 2
	if reflect.DeepEqual(queues, c.Queues()) {
		t.Error("different seeds make the same clicks")
	}
}

func TestResult(t *testing.T) {
	for _, test := range []struct {
		sold, people, left, stock, buyers int
		faults                            string
	}{
		{100, 100, 0, 100, 2000, ""},
		{50, 50, 50, 100, 50, ""},
		{101, 101, -1, 100, 2000, "1 oversold"},
		{99, 99, 1, 100, 2000, "1 unsold despite demand"},
		{100, 98, 0, 100, 2000, "2 double orders"},
		{100, 100, 7, 100, 2000, "7 lost updates"},
		{100, 100, -1, 100, 2000, "-1 lost updates"},
		{150, 140, 0, 100, 2000, "50 oversold, 10 double orders, 50 lost updates"},
	} {
		for _, w := range sale.Ways() {
			r := sale.Result{Way: w, Crowd: sale.Crowd{Stock: test.stock, Buyers: test.buyers}, Sold: test.sold, People: test.people, Left: test.left}
			if r.Faults() != test.faults || r.Spotless() != (test.faults == "") {
				t.Errorf("%+v: %q", test, r.Faults())
			}
			if lucky := strings.Contains(r.Why(), "luck"); lucky != (r.Spotless() && !w.Ours) {
				t.Errorf("%s, %+v: %q", w.Name, test, r.Why())
			}
			if guilty := strings.Contains(r.Why(), "must not happen"); guilty != (!r.Spotless() && w.Ours) {
				t.Errorf("%s, %+v: %q", w.Name, test, r.Why())
			}
		}
	}
}

// TestQuantile checks the 99th percentile: one of a hundred orders may take longer.
func TestQuantile(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(100-i))
	}
	for q, want := range map[float64]time.Duration{0.5: 50, 0.99: 99, 1: 100} {
		if got := (sale.Result{}).WithTimes(times...).Quantile(q); got != want {
			t.Errorf("%v of 1 to 100: %d, want %d", q, got, want)
		}
	}
	for n, want := range []time.Duration{0, 1, 2, 3} {
		if got := (sale.Result{}).WithTimes(times[100-n:]...).Quantile(0.99); got != want {
			t.Errorf("0.99 of 1 to %d: %d, want %d", n, got, want)
		}
	}
}

// TestWhy checks that the explanation names exactly the faults of the result.
func TestWhy(t *testing.T) {
	crowd := sale.Crowd{Stock: 100, Buyers: 2000}
	for _, test := range []struct {
		way                string
		sold, people, left int
		says, not          string
	}{
		{"none", 150, 140, 0, "lost.*more coupons are sold.*one person", ""},
		{"none", 80, 80, 40, "lost", "more coupons are sold|one person"},
		{"paused", 150, 150, 0, "sold a second time", ""},
		{"paused", 90, 90, 20, "missing from it", "sold a second time"},
	} {
		w := way(t, test.way)
		r := sale.Result{Way: w, Crowd: crowd, Sold: test.sold, People: test.people, Left: test.left, Paused: 1, Meanwhile: 10}
		if !regexp.MustCompile(test.says).MatchString(r.Why()) || test.not != "" && regexp.MustCompile(test.not).MatchString(r.Why()) {
			t.Errorf("%s: %s: %s", test.way, r.Faults(), r.Why())
		}
	}
}

func TestChoose(t *testing.T) {
	ways, err := sale.Choose([]string{"mutex", "none", "mutex"})
	if err != nil || len(ways) != 2 || ways[0].Name != "none" || ways[1].Name != "mutex" {
		t.Errorf("%v, %v", ways, err)
	}
	for _, bad := range []string{"", "nonsense", "\x1b[31m"} {
		if _, err := sale.Choose([]string{"none", bad}); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestLocate checks that no error contains the password.
func TestLocate(t *testing.T) {
	for _, bad := range []string{
		"", "oracle://x", "postgres", "mysql:", "mysql://host", "mysql://host:3306/", "postgres://user:s3cret@host:port/x",
		"postgres://user:s3cret%@host/x", "mysql://user:s3cret@/x", "mysql://user:s3cret@host:99999999/x?tls=s3cret&parseTime=maybe", "mysql://u:s3cret@h/x?parseTime=%zz",
	} {
		d, _, err := sale.Locate(bad, "p")
		if err == nil || strings.Contains(err.Error(), "s3cret@") {
			t.Errorf("%q: %+v, %v", bad, d, err)
		}
	}
	for text, kind := range map[string]string{
		"postgres://user:s3cret@host/x": "PostgreSQL", "postgresql://host/x": "PostgreSQL",
		"mysql://user:s3cret@host/x": "MySQL", "mariadb://user@host:1/x?tls=true": "MariaDB",
	} {
		if d, _, err := sale.Locate(text, "p"); err != nil || d.Kind != kind {
			t.Errorf("%q: %+v, %v", text, d, err)
		}
	}
}
