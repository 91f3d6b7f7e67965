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
		`return {1, nil, 3}`:                                                        "[1]",
		`return redis.status_reply('fine')`:                                         "fine",
		`return redis.sha1hex('')`:                                                  "da39a3ee5e6b4b0d3255bfef95601890afd80709",
		`local r = redis.pcall('nonsense'); return r.err and 1`:                     "1",
		`return redis.call('set', KEYS[1], 10)`:                                     "OK",
		`return redis.call('get', 'missing') == false and 1 or 2`:                   "1",
		`redis.call('set', 'x', 0.1); return redis.call('get', 'x')`:                "0.10000000000000001",
		`redis.call('zadd', 'z', 1e20, 'a'); return redis.call('zscore', 'z', 'a')`: "1e+20",
		`return tostring(1e15) .. 1e15 .. 0.1 .. 7 .. 'x'`:                          "1e+151e+150.17x",
		`local t = setmetatable({}, {__concat = function(a, b) return (a == 'x' and a or 't') .. '+' .. (b == 'y' and b or 't') end}); return {t .. 'y', 'x' .. t, 'a' .. 'x' .. (t .. 'y')}`: "[t+y x+t axt+y]",
		`return {string.find('abc', 'b', 10) == nil and 1, string.find('abc', '', 10)}`:                                                                                                       "[1 4 3]",
		`return {string.find('abc', ''), string.find('', ''), string.find('abc', 'c', -1), string.find('abc', 'b', -1)}`:                                                                      "[1 1 3]",
		`return {string.gsub('hello world', 'o', '%0%0'), string.gsub('abc', '%w', '%1x'), string.gsub('abc', '', '-')}`:                                                                      "[helloo woorld axbxcx -a-b-c- 4]",
		`return {('THE (quick) fox'):find('%((%a+)%)')}`:                                                                                                                                      "[5 11 quick]",
		`return {string.match('  x ', '^%s*(.-)%s*$'), string.match('key', '()ey()'), string.match('2024-01', '(%d+)-(%d+)')}`:                                                                "[x 2 2024 01]",
		`return {string.gsub('abc', 'b', {b = false}), string.gsub('abc', '%w', {a = 1, b = 'x'}), string.gsub('abc', 'b', function() end)}`:                                                  "[abc 1xc abc 1]",
		`return {string.gsub('abc', '%w', string.upper, 2), string.gsub('abc', '^a', 'x'), string.gsub('aaa', '^a', 'b'), string.gsub('x', '(x)', '%%%1')}`:                                   "[ABc xbc baa %x 1]",
		`local t = {}; for k, v in string.gmatch('a=1, b=2', '(%w+)=(%w+)') do t[#t + 1] = k .. v end; return t`:                                                                              "[a1 b2]",
		`local t = {}; for w in string.gmatch('ab', '') do t[#t + 1] = '<' .. w .. '>' end; return t`:                                                                                         "[<> <> <>]",
		`return {string.match('f(a(b)c)d', '%b()'), string.gsub('THE (quick)', '%f[%a]%a+', 'X'), string.match('abcabc', '(abc)%1')}`:                                                         "[(a(b)c) X (X) abc]",
		`return {string.match('a-b]c', '[]a-]+'), string.match('x^y', '[x^]+'), string.match('a%b', 'a%%b'), string.match('A1_z', '[%w_]+')}`:                                                 "[a- x^ a%b A1_z]",
		`return {string.match('abc', '[^a]+'), string.match('x.y', '%.'), string.match('aXb', '%u'), string.match('a\tb', '%c'), string.match('!a', '%P')}`:                                   "[bc . X \t a]",
		`return {string.gsub('abc', '(', 'x'), string.match('aab', 'a-b'), string.match('aaa', 'a?a?a'), string.match('ab', 'a+$') == nil and 1}`:                                             "[xaxbxcx aab aaa 1]",
		`return {string.find('a+b', '+', 1, true)}`: "[2 2]",
		`return string.format('%5.1f|%-5d|%q|%g|%x|%c|%s|%5.2s|%i|%%|%05d|%+d|%.3s|%e|%X|%o|%u', 1.25, 3, 'a\nb"\\', 1e20, 255, 65, 'x', 'abc', 7, 42, 5, 'long', 12345.678, 255, 8, 9)`: "  1.2|3    |\"a\\\nb\\\"\\\\\"|1e+20|ff|A|x|   ab|7|%|00042|+5|lon|1.234568e+04|FF|10|9",
		`return string.format('%d %s %g %5s|%-5s|', '3', 4.5, 0.1, 'é', 'é')`:                                                                                                            "3 4.5 0.1    é|é   |",
		`return string.format('%f %g %.14g %d %5.2f', 1/3, 1/3, 2^53, -7.9, 2.005)`:                                                                                                      "0.333333 0.333333 9.007199254741e+15 -7  2.00",
		`return {string.rep('x', -1), string.rep('', 1000000000), string.rep('ab', 3), string.lower('ÄBC'), string.upper('äbc'), string.reverse('abc')}`:                                 "[  ababab Äbc äBC cba]",
		`return {table.concat({1, 2, 'x'}, ', '), table.concat({}, 'x'), table.concat({1, 2, 3}, '', 2), table.concat({1, 2, 3}, '-', 2, 2)}`:                                            "[1, 2, x  23 2]",
		`local t = {}; function t.a(x) return x end; function t:b(x) return self == t and x end; t.c, t['d'] = 3, 4; return {t.a(1), t:b(2), t.c, t.d}`:                                  "[1 2 3 4]",
		`local t = {}; t.x = 1, 2; local u = {[1] = 'a', b = 'c', [3 - 1] = 'd', 'e'}; return {t.x, u[1], u.b, u[2]}`:                                                                    "[1 e c d]",
		`local function f() return 1, 2 end; local t = {}; t.a = f(); t[1] = (f()); return {t.a, t[1], #{f(), f()}, #{f(), (f())}}`:                                                      "[1 1 3 2]",
		`local t = {3, 1, 2}; table.sort(t); table.insert(t, 1, 0); table.insert(t, 4); table.remove(t, 2); return t`:                                                                    "[0 2 3 4]",
		`local function fact(n) if n < 2 then return 1 end return n * fact(n - 1) end; return fact(10)`:                                                                                  "3628800",
		`local t = setmetatable({}, {__newindex = function(t, k, v) rawset(t, k, v * 2) end}); t.x = 2; return {t.x, rawget(t, 'x')}`:                                                    "[4 4]",
		`return {unpack({1, 2, 3}, 2)}`: "[2 3]",
		`return {select('#', unpack({}, 1, 3)), (unpack({1, 2})), pcall(error, 'x') and 1 or 2}`:                                                                          "[3 1 2]",
		`local ok, e = pcall(function() x = 1 end); local ok2, e2 = pcall(function() return x end); return {string.match(e, 'Attempt.*'), string.match(e2, 'Script.*')}`:  "[Attempt to modify a readonly table Script attempted to access nonexistent global variable 'x']",
		`local ok, e = pcall(rawset, string, 'x', 1); local ok2, e2 = pcall(table.insert, math, 1); return {string.match(e, 'Attempt.*'), string.match(e2, 'Attempt.*')}`: "[Attempt to modify a readonly table Attempt to modify a readonly table]",
		`local a, b = struct.unpack('Bc0I', struct.pack('Bc0I', 3, 'abc', 70000)); return {a, b}`:                                                                         "[abc 70000]",
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
