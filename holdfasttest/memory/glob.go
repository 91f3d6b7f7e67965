package memory

// matches reports whether a text matches a pattern of Redis: *, ?, [a-c], [^a] and \.
func matches(pattern, text string) bool {
	for len(pattern) > 0 {
		switch pattern[0] {
		case '*':
			for len(pattern) > 1 && pattern[1] == '*' {
				pattern = pattern[1:]
			}
			if len(pattern) == 1 {
				return true
			}
			for i := 0; i <= len(text); i++ {
				if matches(pattern[1:], text[i:]) {
					return true
				}
			}
			return false
		case '?':
			if text == "" {
				return false
			}
			pattern, text = pattern[1:], text[1:]
		case '[':
			if text == "" {
				return false
			}
			rest, in := class(pattern[1:], text[0])
			if !in {
				return false
			}
			pattern, text = rest, text[1:]
		default:
			if pattern[0] == '\\' && len(pattern) > 1 {
				pattern = pattern[1:]
			}
			if text == "" || text[0] != pattern[0] {
				return false
			}
			pattern, text = pattern[1:], text[1:]
		}
	}
	return text == ""
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
