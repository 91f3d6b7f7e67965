package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// An Error describes what is wrong with a file.
type Error struct {
	Line int    // the line, starting at 1; zero if it is not known
	Key  string // the key; empty if there is none
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Key != "" {
		text = e.Key + ": " + text
	}
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}

// Unwrap returns the error without its position.
func (e *Error) Unwrap() error { return e.Err }

func wrong(line int, key, format string, args ...any) error {
	return &Error{Line: line, Key: key, Err: fmt.Errorf(format, args...)}
}

var lineOf = regexp.MustCompile(`^yaml: line (\d+):`)

// document returns the top-level mapping of a file.
func document(text []byte) (*yaml.Node, error) {
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, wrong(0, "", "the file is empty: add the servers, as in singleServerConfig: {address: \"redis://host:6379\"}")
	}
	if err == nil {
		if next := d.Decode(&more); next == nil {
			return nil, wrong(more.Line, "", "a second document begins here: keep only one")
		} else if !errors.Is(next, io.EOF) {
			err = next
		}
	}
	if err != nil {
		// The text of the error is not used: it may contain a part of the file.
		if m := lineOf.FindStringSubmatch(err.Error()); m != nil {
			return nil, wrong(0, "", "not valid YAML or JSON near line %s: check the indentation, and quote values that contain special characters", m[1])
		}
		return nil, wrong(0, "", "not valid YAML or JSON: check the indentation, and quote values that contain special characters")
	}
	root := follow(doc.Content[0])
	if root.Kind != yaml.MappingNode {
		return nil, wrong(root.Line, "", "the file must consist of keys and values, as in singleServerConfig: {address: \"redis://host:6379\"}")
	}
	return root, nil
}

// follow resolves an alias.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// class returns the name of the Java class of a value, or "".
func class(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == "class" { // in JSON
				return n.Content[i+1].Value
			}
		}
	}
	tag := strings.TrimLeft(strings.TrimPrefix(n.Tag, "tag:yaml.org,2002:"), "!")
	if !strings.Contains(tag, ".") {
		return ""
	}
	return tag
}

// A rule says how to handle a key. With the zero rule, the key has no effect.
type rule struct {
	read   func(r *reader, key string, n *yaml.Node) error // reads the value
	refuse string                                          // the reason to refuse the key
	unless []string                                        // values of these Java classes have no effect and are not refused
}

// mapping applies rules to the keys of n. The path is the position of n for
// errors: "" or the name of a section.
func (r *reader) mapping(n *yaml.Node, path string, rules map[string]rule) error {
	if n.Kind != yaml.MappingNode {
		return wrong(n.Line, path, "must be a section of keys and values")
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], follow(n.Content[i+1])
		name := k.Value
		if k.Kind != yaml.ScalarNode || !nameLike.MatchString(name) {
			return wrong(k.Line, path, "expected the name of a setting: check the indentation")
		}
		rule, ok := rules[name]
		if !ok {
			return unknown(k.Line, path, name, rules)
		}
		if first, twice := lines[name]; twice {
			return wrong(k.Line, name, "is given twice, first in line %d: keep one", first)
		}
		lines[name] = k.Line
		if isNull(value) {
			continue
		}
		if err := r.once(name, path, k.Line, value); err != nil {
			return err
		}
		if err := r.apply(rule, name, path, k.Line, value); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) apply(u rule, name, path string, line int, value *yaml.Node) error {
	switch {
	case u.read != nil:
		return u.read(r, name, value)
	case u.refuse == "":
		if path != "" {
			name = path + "." + name
		}
		r.s.Ignored = append(r.s.Ignored, name)
	case !slices.Contains(u.unless, class(value)):
		return wrong(line, name, "%s", u.refuse)
	}
	return nil
}

// once refuses a key that is both at the top and in a section, unless both have
// the same value.
func (r *reader) once(name, path string, line int, value *yaml.Node) error {
	now := given{path, line, value.Value, value.Kind == yaml.ScalarNode}
	before, ok := r.given[name]
	r.given[name] = now
	if ok && (!before.plain || !now.plain || before.value != now.value) {
		return wrong(line, name, "is also given in line %d, at the top or in another section: keep one", before.line)
	}
	return nil
}

// A key that does not match may be a misplaced value. Errors must not contain
// values.
var nameLike = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]{0,63}$|^<<$`)

func unknown(line int, path, name string, rules map[string]rule) error {
	if name == "<<" {
		return wrong(line, "<<", "merge keys are not supported: write the settings out")
	}
	var sections []string
	for where, keys := range places() {
		if _, ok := keys[name]; ok && where == "" {
			return wrong(line, name, "belongs at the top of the file, not in %s", path)
		} else if ok {
			sections = append(sections, where)
		}
	}
	if len(sections) > 0 {
		slices.Sort(sections)
		return wrong(line, name, "belongs in section %s", strings.Join(sections, " or "))
	}
	at := "at the top of the file"
	if path != "" {
		at = "in section " + path
	}
	// The name is not repeated: it may be a misplaced value, such as a password.
	if near := nearest(name, rules); near != "" {
		return wrong(line, "", "unknown setting %s: did you mean %s?", at, near)
	}
	return wrong(line, "", "unknown setting %s: docs/configuration.md lists all settings", at)
}

// nearest returns the key that is most similar to name, or "".
func nearest(name string, rules map[string]rule) string {
	best, least := "", 1+max(2, len(name)/4)
	for _, key := range slices.Sorted(maps.Keys(rules)) {
		if d := distance(strings.ToLower(name), strings.ToLower(key)); d < least {
			best, least = key, d
		}
	}
	return best
}

// distance returns the number of insertions, deletions and replacements between
// a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
