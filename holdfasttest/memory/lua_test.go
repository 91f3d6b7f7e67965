package memory

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.RunTests(m)) }

// The interpreter does what that of Redis does, also where gopher-lua differs.
func TestLua(t *testing.T) {
	s, redis := New(), redistest.Start(t)
	for script, want := range map[string]string{
		`local a, b = 'x', 'y'; a, b = b, a; return a .. b`:                                                                  "yx",
		`local a, b, c = 1, 2, 3; a, b, c = b, c, a; return {a, b, c}`:                                                       "[2 3 1]",
		`local a, b = 0, 0; a, b = a + 1, a + b; return {a, b}`:                                                              "[1 0]",
		`local t, i = {}, 1; i, t[i] = i + 1, 20; return {i, t[1] or 0, t[2] or 0}`:                                          "[2 20 0]",
		`local t, i = {}, 1; t[i], i = 20, i + 1; return {i, t[1] or 0, t[2] or 0}`:                                          "[2 20 0]",
		`local t = {1, 2}; t[1], t[2] = t[2], t[1]; return t`:                                                                "[2 1]",
		`local t = {a = 1, b = 2}; t.a, t.b = t.b, t.a; return {t.a, t.b}`:                                                   "[2 1]",
		`local f = function() local a, b = 1, 2; if true then a, b = b, a end; return {a, b} end; return f()`:                "[2 1]",
		`local function two() return 1, 2 end; local a, b, c; a, b, c = two(); return {a, b, tostring(c)}`:                   "[1 2 nil]",
		`local function two() return 1, 2 end; local a, b; a, b = 5, two(); return {a, b}`:                                   "[5 1]",
		`local n = 0; for i = '1', '3' do n = n + i end; return n`:                                                           "6",
		`local function f() return false end; local function g(x) x = f() and x or x; return x end; return g('main')`:        "main",
		`return {tostring(1e15), tostring(2 ^ 53), tostring(10 / 3), tostring(-0.5), tostring(7)}`:                           "[1e+15 9.007199254741e+15 3.3333333333333 -0.5 7]",
		`return {tonumber('0x10'), tonumber(' 5 '), tonumber('1e3'), tostring(tonumber('5x')), tostring(tonumber(''))}`:      "[16 5 1000 nil nil]",
		`return {tostring(tonumber('inf')), tostring(-math.huge), tonumber('ff', 16), tostring(tonumber(nil))}`:              "[inf -inf 255 nil]",
		`return {string.format('%.0f', 1e15), string.format('%d', 3), string.rep('x', 3), string.find('a.b', '.', 1, true)}`: "[1000000000000000 3 xxx 2 2]",
		`return {3.99, -3.99, true, 'x', {1, {2}}, false, 5}`:                                                                "[3 -3 1 x [1 [2]] <nil> 5]",
		`return {1, nil, 3}`:                                                                      "[1]",
		`return redis.status_reply('fine')`:                                                       "fine",
		`return redis.sha1hex('')`:                                                                "da39a3ee5e6b4b0d3255bfef95601890afd80709",
		`local r = redis.pcall('nonsense'); return r.err and 1`:                                   "1",
		`return redis.call('set', KEYS[1], 10)`:                                                   "OK",
		`return redis.call('get', 'missing') == false and 1 or 2`:                                 "1",
		`redis.call('set', 'x', 0.1); return redis.call('get', 'x')`:                              "0.10000000000000001",
		`redis.call('zadd', 'z', 1e20, 'a'); return redis.call('zscore', 'z', 'a')`:               "1e+20",
		`local a, b = struct.unpack('Bc0I', struct.pack('Bc0I', 3, 'abc', 70000)); return {a, b}`: "[abc 70000]",
	} {
		tx := s.begin(0)
		r, err := tx.eval(sha1Hex(script), script, []string{"key"}, nil)
		tx.end()
		if got := fmt.Sprint(r); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", script, got, err, want)
		}
		if got := fmt.Sprint(redis.Do(t, "EVAL", script, "1", "key")); got != want {
			t.Errorf("%s: Redis says %s, want %s", script, got, want)
		}
	}
}
