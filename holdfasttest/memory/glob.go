package memory

// matches reports whether a text matches a pattern of Redis: *, ?, [a-c], [^a] and \. If a
// match fails, only the last * takes one more character, so the work grows with the product of
// both lengths. Work beyond their sum counts as steps. When no steps are left, nothing matches.
func (m *meter) matches(pattern, text string) bool {
	free := int64(len(pattern) + len(text))
	starred, again, from := false, "", "" // the pattern behind the last *, and the text that it leaves
	for {
		cost := int64(1)
		switch {
		case pattern == "" && text == "":
			return true
		case pattern != "" && pattern[0] == '*':
			pattern = pattern[1:]
			starred, again, from = true, pattern, text
			if pattern == "" {
				return true
			}
		case pattern != "" && text == "":
			return false
		default:
			rest, ok := "", false
			if pattern != "" {
				rest, ok = element(pattern, text[0])
				cost = int64(len(pattern) - len(rest))
			}
			switch {
			case ok:
				pattern, text = rest, text[1:]
			case starred:
				from = from[1:]
				pattern, text = again, from
			default:
				return false
			}
		}
		if free -= cost; free < 0 && !m.use(cost) {
			return false
		}
	}
}

// element reports whether the first element of a pattern, which is no *, matches c. It returns
// the rest of the pattern.
func element(pattern string, c byte) (rest string, ok bool) {
	switch {
	case pattern[0] == '?':
		return pattern[1:], true
	case pattern[0] == '[':
		return class(pattern[1:], c)
	case pattern[0] == '\\' && len(pattern) > 1:
		pattern = pattern[1:]
	}
	return pattern[1:], pattern[0] == c
}

// class reports whether c is in a class, whose pattern begins after its bracket, and returns
// what follows the class.
func class(pattern string, c byte) (rest string, in bool) {
	not := false
	if pattern != "" && pattern[0] == '^' {
		not, pattern = true, pattern[1:]
	}
	for pattern != "" && pattern[0] != ']' {
		switch {
		case pattern[0] == '\\' && len(pattern) > 1:
			in = in || pattern[1] == c
			pattern = pattern[2:]
		case len(pattern) > 2 && pattern[1] == '-':
			low, high := min(pattern[0], pattern[2]), max(pattern[0], pattern[2])
			in = in || low <= c && c <= high
			pattern = pattern[3:]
		default:
			in = in || pattern[0] == c
			pattern = pattern[1:]
		}
	}
	if pattern != "" {
		pattern = pattern[1:]
	}
	return pattern, in != not
}
