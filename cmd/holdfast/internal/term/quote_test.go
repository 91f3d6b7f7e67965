package term_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

func TestQuote(t *testing.T) {
	for _, tt := range []struct {
		text string
		max  int
		want string
	}{
		{"", 10, ""},
		{"orders:42", 9, "orders:42"},
		{"orders:42", 8, "orders:…"},
		{"orders", 1, "…"},
		{"o", 1, "o"},
		{"orders", 0, ""},
		{"orders", -1, ""},
		{"\x1b[2J\x1b]0;x\a", 80, `\x1b[2J\x1b]0;x\a`},
		{"a\nb\r\tc", 80, `a\nb\r\tc`},
		{`a\nb`, 80, `a\\nb`},
		{"\u009b31m", 80, `\u009b31m`}, // CSI in one character
		{"\xff\xc3", 80, `\xff\xc3`},
		{"\u202egnp.exe", 80, `\u202egnp.exe`},
		{"a\u200bb\ufeff", 80, `a\u200bb\ufeff`},
		{"e\u0301", 80, `e\u0301`},
		{"<b>&amp;</b>", 80, "<b>&amp;</b>"},
		{"日本", 4, "日本"},
		{"日本", 3, "日…"},
		{"日本", 2, "…"},
		{"🇩🇪👍🏽", 80, `\U0001f1e9\U0001f1ea👍\U0001f3fd`},
		{"ᄒ\u1161\u11ab", 80, `\u1112\u1161\u11ab`},
		{" a b  c ", 80, `\x20a b\x20\x20c\x20`},
		{"a\u00a0b\u3164", 80, `a\u00a0b\u3164`},
		{"cut…", 80, `cut\u2026`},
		{"\x1bxx", 4, `\x1b…`[:0] + "…"},
		{"\x1bxx", 5, `\x1b…`},
		{strings.Repeat("x", 1<<20), 20, strings.Repeat("x", 19) + "…"},
		{strings.Repeat("\u0301", 1<<19), 20, strings.Repeat(`\u0301`, 3) + "…"},
	} {
		if got := term.Quote(tt.text, tt.max); got != tt.want {
			t.Errorf("Quote(%.40q, %d) = %.80q, want %.80q", tt.text, tt.max, got, tt.want)
		}
	}
	if got, want := term.Line("  5%  \x1bx ", 80), `  5%  \x1bx `; got != want {
		t.Errorf("Line: %q, want %q", got, want)
	}
}

// FuzzQuote checks that the result of Quote fits, contains no control characters, and
// differs from the result for any other text.
func FuzzQuote(f *testing.F) {
	for _, text := range []string{"", "orders", "\x1b[31m", "\xff", "\u202e", "e\u0301", "日本語", " a  b ", `\x1b`, "🇩🇪", "…", "\u009b", "\u2028"} {
		f.Add(text, 10)
		f.Add(text, 1000)
	}
	f.Fuzz(func(t *testing.T, text string, max int) {
		for _, quote := range []func(string, int) string{term.Quote, term.Line} {
			checkQuoted(t, quote, text, max)
		}
	})
}

func checkQuoted(t *testing.T, quote func(string, int) string, text string, max int) {
	t.Helper()
	shown := quote(text, max)
	if term.Width(shown) > max && shown != "" {
		t.Fatalf("%q is wider than %d", shown, max)
	}
	if !utf8.ValidString(shown) {
		t.Fatalf("%q is not UTF-8", shown)
	}
	for _, r := range shown {
		if !unicode.IsPrint(r) || unicode.In(r, unicode.M, unicode.Cf) {
			t.Fatalf("%q contains %U", shown, r)
		}
	}
	whole := quote(text, 1<<30)
	back, err := strconv.Unquote(`"` + strings.ReplaceAll(whole, `"`, `\"`) + `"`)
	if err != nil || back != text {
		t.Fatalf("%q reads back as %q (%v), not %q", whole, back, err, text)
	}
	if before, isCut := strings.CutSuffix(shown, "…"); isCut != (shown != whole) && max > 0 || !strings.HasPrefix(whole, before) {
		t.Fatalf("%q is not a prefix of %q", shown, whole)
	}
	if max > 0 && term.Width(whole) <= max && shown != whole {
		t.Fatalf("%q was cut although it fits into %d columns", whole, max)
	}
}

// FuzzJSON checks that JSON contains no control characters and keeps all text.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{"orders", "\x1b[31m", "\u009b31m", "\u202e", "\x7f", "🏽", "<b>", "\u2028", "\ufffd", "\U000e0001"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line, err := term.JSON(map[string]string{"name": text})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range strings.TrimSuffix(line, "\n") {
			if !unicode.IsPrint(r) || unicode.In(r, unicode.M, unicode.Cf) {
				t.Fatalf("%q contains %U", line, r)
			}
		}
		var back map[string]string
		if err := json.Unmarshal([]byte(line), &back); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(text, "\ufffd"); utf8.ValidString(text) && back["name"] != want {
			t.Fatalf("%q reads back as %q, not %q", line, back["name"], want)
		}
	})
}
