package memory

import (
	"bytes"
	"encoding/gob"
	"strings"
)

// A dumped value is what DUMP returns, in the form of package gob. It is of no use for
// another kind of server.
type dumped struct {
	Type   string
	Text   string
	Items  []string // of a list; of a hash, fields and values; of a sorted set, members
	Scores []float64
}

const dumpMark = "holdfast-memory 1\n"

func dump(t *tx, args []string) (any, error) {
	e := t.find(args[0])
	if e == nil {
		return nil, nil
	}
	d := dumped{Type: typeName(e.value)}
	switch v := e.value.(type) {
	case string:
		d.Text = v
	case *list:
		d.Items = v.items
	case *hash:
		d.Items = v.list(v.fields, true, true)
	case *zset:
		for _, m := range v.items {
			d.Items, d.Scores = append(d.Items, m.name), append(d.Scores, m.score)
		}
	}
	var b bytes.Buffer
	b.WriteString(dumpMark)
	if err := gob.NewEncoder(&b).Encode(d); err != nil {
		return nil, failure("ERR " + err.Error())
	}
	return b.String(), nil
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
	bad := failure("ERR DUMP payload version or checksum are wrong")
	text, ok := strings.CutPrefix(args[2], dumpMark)
	var d dumped
	if !ok || gob.NewDecoder(strings.NewReader(text)).Decode(&d) != nil {
		return nil, bad
	}
	e := new(entry)
	if ttl > 0 {
		if e.until, err = t.deadline(ttl, false, at, "restore"); err != nil {
			return nil, err
		}
	}
	switch d.Type {
	case "string":
		e.value = d.Text
	case "list":
		e.value = &list{d.Items}
	case "hash":
		h := newHash()
		for i := 0; i+1 < len(d.Items); i += 2 {
			h.set(d.Items[i], d.Items[i+1])
		}
		e.value = h
	case "zset":
		z := newZset()
		for i, name := range d.Items {
			z.set(name, d.Scores[i])
		}
		e.value = z
	default:
		return nil, bad
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
