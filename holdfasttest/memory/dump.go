package memory

import (
	"encoding/binary"
	"strings"
)

// What DUMP returns is dumpMark, the type, and the parts of the value. It is of no use for
// another kind of server. A part is its length, in four bytes, and its bytes. A score is a part.
// So RESTORE allocates no more than a few times what it has received.

const dumpMark = "holdfast-memory 2\n"

func dump(t *tx, args []string) (any, error) {
	e := t.find(args[0])
	if e == nil {
		return nil, nil
	}
	parts := []string{typeName(e.value)}
	switch v := e.value.(type) {
	case string:
		parts = append(parts, v)
	case *list:
		parts = append(parts, v.items...)
	case *hash:
		parts = append(parts, v.list(v.fields, true, true)...)
	case *zset:
		for _, m := range v.items {
			parts = append(parts, m.name, score(m.score))
		}
	}
	b := []byte(dumpMark)
	for _, part := range parts {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	return string(b), nil
}

// undump returns the value in what DUMP has returned.
func undump(text string) (value any, ok bool) {
	text, ok = strings.CutPrefix(text, dumpMark)
	var parts []string
	for ok && text != "" {
		if len(text) < 4 {
			return nil, false
		}
		n := binary.BigEndian.Uint32([]byte(text[:4]))
		if text = text[4:]; uint64(n) > uint64(len(text)) {
			return nil, false
		}
		parts, text = append(parts, text[:n]), text[n:]
	}
	if len(parts) < 2 { // no value is empty
		return nil, false
	}
	items := parts[1:]
	even := len(items)%2 == 0
	switch parts[0] {
	case "string":
		return items[0], len(items) == 1
	case "list":
		return &list{items}, true
	case "hash":
		h := newHash()
		for i := 0; even && i < len(items); i += 2 {
			h.set(items[i], items[i+1])
		}
		return h, even
	case "zset":
		scores := make(map[string]float64)
		for i := 0; even && i < len(items); i += 2 {
			f, err := float(items[i+1])
			if err != nil {
				return nil, false
			}
			scores[items[i]] = f
		}
		z := newZset()
		z.set(scores)
		return z, even
	default:
		return nil, false
	}
}

func restore(t *tx, args []string) (any, error) {
	ttl, err := integer(args[1])
	if err != nil {
		return nil, err
	}
	replace, at := false, false
	for _, flag := range args[3:] {
		switch {
		case words(flag, "REPLACE"):
			replace = true
		case words(flag, "ABSTTL"):
			at = true
		default:
			return nil, errSyntax
		}
	}
	if !replace && t.find(args[0]) != nil {
		return nil, failure("BUSYKEY Target key name already exists.")
	}
	if ttl < 0 {
		return nil, failure("ERR Invalid TTL value, must be >= 0")
	}
	value, ok := undump(args[2])
	if !ok {
		return nil, failure("ERR DUMP payload version or checksum are wrong")
	}
	e := &entry{value: value}
	if ttl > 0 {
		if e.until, err = t.deadline(ttl, false, at, "restore"); err != nil {
			return nil, err
		}
	}
	if t.find(args[0]) != nil {
		t.drop(args[0], "")
	}
	if e.until != 0 && e.until <= t.now {
		return status("OK"), nil
	}
	t.put(args[0], e)
	t.event("restore", args[0])
	return status("OK"), nil
}
