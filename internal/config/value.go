package config

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var variable = regexp.MustCompile(`\$\{([A-Za-z0-9_.]+)(:-[^}]*)?\}`)

// text returns a scalar with its variables replaced. Redisson replaces
// variables in the text of the file. Here a value cannot change the structure
// of the file.
func (r *reader) text(key string, n *yaml.Node) (string, error) {
	n = follow(n)
	if n.Kind != yaml.ScalarNode {
		return "", wrong(n.Line, key, "must be a single value")
	}
	missing := false
	s := variable.ReplaceAllStringFunc(n.Value, func(match string) string {
		m := variable.FindStringSubmatch(match)
		value, ok := r.env(m[1])
		fallback, has := strings.CutPrefix(m[2], ":-")
		switch {
		case has && value == "":
			return fallback
		case !ok:
			missing = true
		}
		return value
	})
	if missing { // the name is not repeated: it may be a password with a dollar sign
		return "", wrong(n.Line, key, "refers to an environment variable that is not set: set it, or write ${NAME:-default}")
	}
	return s, nil
}

// list returns the items of a list. A single item may be written without
// brackets.
func (r *reader) list(key string, n *yaml.Node) ([]string, error) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var list []string
	for _, item := range items {
		s, err := r.text(key, item)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func (r *reader) number(key string, n *yaml.Node, least, most int64, what string) (int64, error) {
	s, err := r.text(key, n)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < least || v > most {
		return 0, wrong(n.Line, key, "must be %s", what)
	}
	return v, nil
}

// longest is the upper bound of all times. It avoids overflows.
const longest = 10 * 365 * 24 * time.Hour

// The following functions return rules that read a value into a field.

func str(field func(*reader) *string) rule {
	return rule{read: func(r *reader, key string, n *yaml.Node) (err error) {
		*field(r), err = r.text(key, n)
		return err
	}}
}

func integer(least int, what string, field func(*reader) *int) rule {
	return rule{read: func(r *reader, key string, n *yaml.Node) error {
		v, err := r.number(key, n, int64(least), math.MaxInt32, what)
		*field(r) = int(v)
		return err
	}}
}

func millis(field func(*reader) *time.Duration) rule {
	return rule{read: func(r *reader, key string, n *yaml.Node) error {
		v, err := r.number(key, n, 1, longest.Milliseconds(), "a positive number of milliseconds, such as 3000")
		*field(r) = time.Duration(v) * time.Millisecond
		return err
	}}
}

func duration(field func(*reader) *time.Duration) rule {
	return rule{read: func(r *reader, key string, n *yaml.Node) error {
		s, err := r.text(key, n)
		if err != nil {
			return err
		}
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 || d > longest {
			return wrong(n.Line, key, "must be a positive duration, such as 500ms or 10s")
		}
		*field(r) = d
		return nil
	}}
}

func boolean(set func(*reader, bool)) rule {
	return rule{read: func(r *reader, key string, n *yaml.Node) error {
		s, err := r.text(key, n)
		if err != nil {
			return err
		}
		if s = strings.ToLower(s); s != "true" && s != "false" {
			return wrong(n.Line, key, "must be true or false")
		}
		set(r, s == "true")
		return nil
	}}
}

// choice calls the function of the word that is the value, ignoring case.
func choice(words string, set map[string]func(*reader)) rule {
	return rule{read: func(r *reader, key string, n *yaml.Node) error {
		s, err := r.text(key, n)
		if err != nil {
			return err
		}
		do, ok := set[strings.ToUpper(s)]
		if !ok {
			return wrong(n.Line, key, "must be %s", words)
		}
		do(r)
		return nil
	}}
}

const delays = "org.redisson.config."

// readDelay reads one of Redisson's delay strategies.
func readDelay(r *reader, key string, n *yaml.Node) error {
	kind, ok := strings.CutPrefix(class(n), delays)
	if !ok || n.Kind != yaml.MappingNode {
		return wrong(n.Line, key, "must be one of Redisson's delays, such as !<org.redisson.config.EqualJitterDelay> {baseDelay: PT1S, maxDelay: PT2S}")
	}
	given := make(map[string]time.Duration)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		switch name {
		case "class":
			continue
		case "delay", "baseDelay", "maxDelay":
		default:
			return wrong(n.Line, key, "a delay has the key delay, or the keys baseDelay and maxDelay")
		}
		s, err := r.text(key, value)
		if err != nil {
			return err
		}
		if given[name], err = javaDuration(s); err != nil {
			return wrong(value.Line, key, "%s: %w", name, err)
		}
	}
	delay, base, most := given["delay"], given["baseDelay"], given["maxDelay"]
	switch kind {
	case "ConstantDelay":
		base, most = delay, delay
	case "EqualJitterDelay", "FullJitterDelay":
	case "DecorrelatedJitterDelay":
		base = most // it may reach its maximum at once
	default:
		return wrong(n.Line, key, "this delay is Java code, which cannot run here: use one of Redisson's delays")
	}
	if most == 0 {
		return wrong(n.Line, key, "the delay is zero: set delay for ConstantDelay, or baseDelay and maxDelay for the others")
	}
	r.delay = func(n int) time.Duration { return pauses(n, base, most) }
	return nil
}

// pauses returns the sum of n pauses that double from base to most.
func pauses(n int, base, most time.Duration) time.Duration {
	var total time.Duration
	for ; n > 0 && base < most; n-- {
		total += base
		base *= 2
		if base == 0 {
			break
		}
	}
	if n > int((longest-total)/most) {
		return longest
	}
	return total + time.Duration(n)*most
}

var iso = regexp.MustCompile(`(?i)^P(?:(\d{1,4})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,8})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?$`)

// javaDuration parses a duration in the format of Java, such as PT1.5S.
func javaDuration(s string) (time.Duration, error) {
	m := iso.FindStringSubmatch(s)
	if m == nil {
		return 0, errors.New("must be a duration in Java format, such as PT1S or PT0.1S")
	}
	total := 0.0
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if v, err := strconv.ParseFloat(m[i+1], 64); err == nil {
			total += v * float64(unit)
		}
	}
	return min(time.Duration(min(total, float64(longest))), longest), nil
}
