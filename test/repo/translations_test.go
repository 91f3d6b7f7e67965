package repo_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The translations of the README have the headings, code blocks, tables, links, code words
// and figures of the English page. So a change of the English page must be made in all.
func TestTranslations(t *testing.T) {
	pages, err := filepath.Glob("README.*.md")
	if err != nil || len(pages) < 2 {
		t.Fatal(pages, err)
	}
	english := outline(readDoc(t, "README.md"))
	for _, page := range pages {
		text := readDoc(t, page)
		translated := outline(text)
		for what, want := range english {
			if got := translated[what]; !slices.Equal(got, want) {
				t.Errorf("%s: the %s differ from README.md: %s", page, what, difference(want, got))
			}
		}
		for _, anchor := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(text, `<a id="`+anchor[1]+`"></a>`) {
				t.Errorf("%s: there is no anchor %s", page, anchor[1])
			}
		}
		if ascii := regexp.MustCompile(`[a-zA-Z]`); ascii.MatchString(headings(text)[1]) {
			t.Errorf("%s: the heading %q is not translated", page, headings(text)[1])
		}
	}
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	heading   = regexp.MustCompile(`(?m)^(#+) (.*)$`)
	tableRow  = regexp.MustCompile(`(?m)^\|.*$`)
	codeWord  = regexp.MustCompile("`[^`]+`")
	linkTo    = regexp.MustCompile(`\]\(([^)]+)\)`)
	figure    = regexp.MustCompile(`\d[\d,]*(?:\.\d+)*`)
)

// outline returns what a page and its translation have in common. What may come in another
// order is sorted.
func outline(text string) map[string][]string {
	o := map[string][]string{"code blocks": codeBlock.FindAllString(text, -1)}
	text = codeBlock.ReplaceAllString(text, "")
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		o["levels of headings"] = append(o["levels of headings"], m[1])
	}
	for _, row := range tableRow.FindAllString(text, -1) {
		o["columns of tables"] = append(o["columns of tables"], strings.Repeat("|", strings.Count(row, "|")))
	}
	for _, m := range linkTo.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(m[1], "README") { // the languages
			o["links"] = append(o["links"], m[1])
		}
	}
	o["code words"] = codeWord.FindAllString(text, -1)
	o["figures"] = figure.FindAllString(linkTo.ReplaceAllString(codeWord.ReplaceAllString(text, ""), ""), -1)
	for _, what := range []string{"links", "code words", "figures"} {
		slices.Sort(o[what])
	}
	return o
}

func headings(text string) []string {
	var hs []string
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		hs = append(hs, m[2])
	}
	return hs
}

// difference returns what one list has and the other has not.
func difference(want, got []string) string {
	var out []string
	rest := slices.Clone(got)
	for _, w := range want {
		if i := slices.Index(rest, w); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			out = append(out, "missing "+w)
		}
	}
	for _, r := range rest {
		out = append(out, "added "+r)
	}
	if len(out) == 0 {
		return "the order"
	}
	return strings.Join(out, "; ")
}
