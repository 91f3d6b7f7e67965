package debug_test

import (
	"encoding/json"
	"expvar"
	"io"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/debug"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/observe"
)

func init() { clock.Fake() }

const page = `client ID

held 1      waiting 1  grants 2    hand-offs 0         failed 1  lost 0
renewals 1  failed 0   oldest 20s  pending releases 0
subscriptions 0  silent 0  dropped events 0  dropped records 0

HELD   NAME                   FOR     CONFIRMED  EXPIRES IN  OWNER
mutex  "<a> \"order\""  20.01s  9.998s ago  19.702s     ID:1

WAITS FOR  NAME                   FOR
mutex      "<a> \"order\""  20s
`

// The page shows what is held, what waits, and what was done. Names cannot break it.
func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := holdfast.New(fake.New(), &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		debug.Publish(c.ID(), c)
		m := c.Mutex(`<a> "order"`)
		l, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release(t.Context())
		if _, err := m.TryLock(t.Context()); err == nil {
			t.Fatal("granted")
		}
		other, err := c.Mutex("other").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = other.Release(t.Context())
		time.Sleep(10 * time.Millisecond)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = m.Lock(t.Context(), holdfast.Wait(time.Minute))
		}()
		time.Sleep(20*time.Second + 500*time.Millisecond)

		rec := httptest.NewRecorder()
		debug.Handler(c).ServeHTTP(rec, httptest.NewRequest("GET", "/debug/holdfast", nil))
		shape := func(s string) string { // times depend on when the watchdog renews
			s = strings.ReplaceAll(s, c.ID(), "ID")
			s = regexp.MustCompile(`ID:\d+`).ReplaceAllString(s, "ID:N")
			s = regexp.MustCompile(`renewals \d+`).ReplaceAllString(s, "renewals N")
			s = regexp.MustCompile(`\d+\.?\d*m?s`).ReplaceAllString(s, "T")
			return strings.TrimSpace(regexp.MustCompile(` +`).ReplaceAllString(s, " "))
		}
		if got := rec.Body.String(); shape(got) != shape(page) {
			t.Errorf("got\n%s", got)
		}
		if typ := rec.Header().Get("Content-Type"); !strings.HasPrefix(typ, "text/plain") {
			t.Error(typ)
		}

		rec = httptest.NewRecorder()
		debug.Handler(c).ServeHTTP(rec, httptest.NewRequest("GET", "/?format=json", nil))
		post := httptest.NewRequest("POST", "/debug/holdfast", strings.NewReader("format=json"))
		post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		debug.Handler(c).ServeHTTP(httptest.NewRecorder(), post)
		if left, _ := io.ReadAll(post.Body); len(left) == 0 {
			t.Error("the body of a request was read")
		}
		var all []observe.Stats
		if err := json.Unmarshal(rec.Body.Bytes(), &all); err != nil {
			t.Fatal(err)
		}
		s := all[0]
		if len(s.Leases) != 1 || s.Leases[0].Name != m.Name() || s.Leases[0].Owner != l.Owner() || s.Leases[0].Kind != "mutex" ||
			len(s.Calls) != 1 || s.Calls[0].Name != m.Name() || s.Waiting != 1 {
			t.Errorf("%+v", s)
		}
		if age := s.RenewalAge; age <= 0 || age > 11*time.Second {
			t.Errorf("the oldest renewal is %v old", age)
		}
		if v := expvar.Get(c.ID()).String(); !strings.Contains(v, c.ID()) {
			t.Error(v)
		}
		_ = l.Release(t.Context())
		<-done
		time.Sleep(time.Minute)
		if s := c.Stats(); len(s.Calls) != 0 || s.Waiting != 0 || s.Handoffs+s.Grants != 3 {
			t.Errorf("at the end: %+v", s)
		}
	})
}
