package inspect

// The sizes of items of a list: about what they take in JSON, which is more than they take in
// memory.

func (l *Lock) size() int {
	n := 256 + textSize(l.Name, l.Leader)
	for _, h := range l.Holders {
		n += 128 + textSize(h.Owner) + h.Client.size()
	}
	for _, w := range l.Queue {
		n += 128 + textSize(w.Owner) + w.Client.size()
	}
	return n
}

// size returns what the client takes with each of its holds.
func (c *Client) size() int {
	if c == nil {
		return 0
	}
	return 64 + textSize(c.ID, c.Host, c.Program, c.Version, c.Pod, c.Label, c.Library)
}

func (d *Deadlock) size() int {
	n := 128 + textSize(d.ID)
	for _, c := range d.Calls {
		n += 128 + textSize(c.Client, c.Who)
		for _, h := range c.Holds {
			n += 128 + textSize(h.Kind, h.Name, h.Owner)
		}
		for _, w := range c.Wants {
			n += 64 + textSize(w.Kind, w.Name)
		}
	}
	return n
}

func (l *Limiter) size() int { return 128 + textSize(l.Name) }

func (p *PlainLock) size() int { return 128 + textSize(p.Name) }

// textSize returns the length of texts. A byte that JSON may escape counts as six.
func textSize(texts ...string) (n int) {
	for _, text := range texts {
		n += len(text)
		for _, c := range []byte(text) {
			if c < ' ' || c > '~' || c == '<' || c == '>' || c == '&' {
				n += 5
			}
		}
	}
	return n
}
