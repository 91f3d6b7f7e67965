package cookbook

import (
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// limitRate passes on the requests of each user up to a rate, and answers the others with
// 429.
func limitRate(client *holdfast.Client, rate holdfast.Rate, userOf func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limiter := client.RateLimiter("api:"+userOf(r), holdfast.WithRate(rate))
		retryAfter, err := limiter.Take(r.Context())
		switch {
		case err != nil:
			log.Printf("request without a limit: %v", err)
		case retryAfter > 0:
			// Take counts whole milliseconds and rounds up. A request takes longer than that one.
			seconds := max(math.Ceil((retryAfter - time.Millisecond).Seconds()), 1)
			w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// newAPI returns the API with its limit.
func newAPI(client *holdfast.Client, userOf func(*http.Request) string, api http.Handler) http.Handler {
	rate := holdfast.Rate{Permits: 100, Per: time.Minute, KeepAlive: 10 * time.Minute}
	return limitRate(client, rate, userOf, api)
}

// Each user has 100 requests per minute, in both processes together. The others are told
// when to try again.
func TestRateLimit(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		var processes []http.Handler
		for range 2 {
			processes = append(processes, newAPI(s.newClient(),
				func(r *http.Request) string { return r.Header.Get("User") },
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		}
		get := func(i int, user string) *http.Response {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.Header.Set("User", user)
			w := httptest.NewRecorder()
			processes[i%2].ServeHTTP(w, r)
			return w.Result()
		}
		passed, after := 0, 0
		for _, response := range together(120, func(i int) *http.Response { return get(i, "ada") }) {
			switch response.StatusCode {
			case http.StatusOK:
				passed++
			case http.StatusTooManyRequests:
				seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
				if err != nil || seconds < 1 || seconds > 60 {
					t.Errorf("Retry-After: %q", response.Header.Get("Retry-After"))
				}
				after = max(after, seconds)
			default:
				t.Error(response.Status)
			}
		}
		if passed != 100 {
			t.Errorf("%d requests passed", passed)
		}
		if response := get(0, "bob"); response.StatusCode != http.StatusOK {
			t.Errorf("another user: %s", response.Status)
		}
		if !s.memory {
			return // it would take a minute
		}
		time.Sleep(time.Duration(after)*time.Second + 2*time.Millisecond) // a request takes a moment
		if response := get(1, "ada"); response.StatusCode != http.StatusOK {
			t.Errorf("after %d s: %s", after, response.Status)
		}
		time.Sleep(11 * time.Minute)
		if n := s.do("DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left of users who are gone: %v", n, s.do("KEYS", "*"))
		}
	})
}

// Requests pass while Redis does not answer.
func TestRateLimitOpen(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.newClient()
		client.Close()
		called := false
		api := newAPI(client, func(*http.Request) string { return "ada" }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
		api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		if !called {
			t.Error("the request did not pass")
		}
	})
}
