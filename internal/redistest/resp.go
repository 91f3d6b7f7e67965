package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Limits of one frame. They are far above what tests send. They keep malformed
// input from exhausting memory or stack.
const (
	maxFrame = 16 << 20
	maxLine  = 64 << 10
	maxDepth = 32
)

// errProtocol is wrapped by every error about malformed input.
var errProtocol = errors.New("redistest: protocol error")

// replyError is an error reply of the server, with the text it sent.
type replyError string

func (e replyError) Error() string { return string(e) }

// frame is one complete value of the protocol, RESP2 or RESP3.
type frame struct {
	kind  byte   // type byte of the value, past any attributes
	raw   []byte // the bytes on the wire, attributes included
	value any    // string, int64, float64, bool, nil, replyError or []any
}

// words returns the leading strings of an array or push: all words of a command,
// or the kind and channel of a confirmation such as [subscribe, name, 1].
func (f frame) words() []string {
	if f.kind != '*' && f.kind != '>' {
		return nil
	}
	elems, _ := f.value.([]any)
	var words []string
	for _, e := range elems {
		s, ok := e.(string)
		if !ok {
			break
		}
		words = append(words, s)
	}
	return words
}

// frameReader splits a byte stream into frames. It does not support the streamed
// types of RESP3, which no server sends.
type frameReader struct {
	src *bufio.Reader
	raw []byte // bytes of the frame being read
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{src: bufio.NewReaderSize(r, maxLine)}
}

// next reads one frame. The error is io.EOF only between two frames.
func (r *frameReader) next() (frame, error) {
	r.raw = nil
	kind, value, err := r.read(0)
	if err != nil {
		if errors.Is(err, io.EOF) && len(r.raw) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	return frame{kind: kind, raw: r.raw, value: value}, nil
}

// read reads one value and returns it with its type byte.
func (r *frameReader) read(depth int) (byte, any, error) {
	if depth > maxDepth {
		return 0, nil, fmt.Errorf("%w: nested too deep", errProtocol)
	}
	line, err := r.line()
	if err != nil {
		return 0, nil, err
	}
	if line == "" {
		return 0, nil, fmt.Errorf("%w: empty line", errProtocol)
	}
	kind, rest := line[0], line[1:]
	var value any
	switch kind {
	case '+', '(':
		value = rest
	case '-':
		value = replyError(rest)
	case ':':
		value, err = strconv.ParseInt(rest, 10, 64)
	case ',':
		value, err = strconv.ParseFloat(rest, 64)
	case '#':
		value = rest == "t"
		if rest != "t" && rest != "f" {
			err = errProtocol
		}
	case '_':
		if rest != "" {
			err = errProtocol
		}
	case '$', '=', '!':
		value, err = r.blob(kind, rest)
	case '*', '>', '~':
		value, err = r.elements(rest, 1, depth)
	case '%':
		value, err = r.elements(rest, 2, depth)
	case '|':
		// Attributes precede the value they describe.
		if _, err := r.elements(rest, 2, depth); err != nil {
			return 0, nil, err
		}
		return r.read(depth + 1)
	default:
		err = errProtocol
	}
	if errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) || errors.Is(err, errProtocol) {
		err = fmt.Errorf("%w: bad line %.40q", errProtocol, line)
	}
	return kind, value, err
}

// line reads up to CRLF and returns what precedes it.
func (r *frameReader) line() (string, error) {
	line, err := r.src.ReadSlice('\n')
	r.raw = append(r.raw, line...)
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("%w: line too long", errProtocol)
	case err != nil:
		return "", err
	case len(r.raw) > maxFrame:
		return "", fmt.Errorf("%w: frame too long", errProtocol)
	case len(line) < 2 || line[len(line)-2] != '\r':
		return "", fmt.Errorf("%w: line without CR", errProtocol)
	}
	return string(line[:len(line)-2]), nil
}

// blob reads the rest of a length-prefixed string.
func (r *frameReader) blob(kind byte, length string) (any, error) {
	n, err := strconv.Atoi(length)
	if err != nil {
		return nil, err
	}
	if n == -1 && kind == '$' {
		return nil, nil
	}
	if n < 0 || len(r.raw)+n+2 > maxFrame {
		return nil, errProtocol
	}
	start := len(r.raw)
	// In chunks, so that a length alone does not allocate.
	for left := n + 2; left > 0; {
		at, chunk := len(r.raw), min(left, maxLine)
		r.raw = slices.Grow(r.raw, chunk)[:at+chunk]
		if _, err := io.ReadFull(r.src, r.raw[at:]); err != nil {
			return nil, err
		}
		left -= chunk
	}
	if string(r.raw[start+n:]) != "\r\n" {
		return nil, fmt.Errorf("%w: string without CRLF", errProtocol)
	}
	text := string(r.raw[start : start+n])
	switch {
	case kind == '!':
		return replyError(text), nil
	case kind == '=' && n > 3 && text[3] == ':':
		return text[4:], nil // without the format, such as "txt:"
	}
	return text, nil
}

// elements reads the elements of an aggregate whose header gives their number
// divided by per.
func (r *frameReader) elements(count string, per, depth int) (any, error) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, err
	}
	if n == -1 {
		return nil, nil
	}
	if n < 0 || n > maxFrame {
		return nil, errProtocol
	}
	elems := []any{}
	for range n * per {
		_, e, err := r.read(depth + 1)
		if err != nil {
			return nil, err
		}
		elems = append(elems, e)
	}
	return elems, nil
}

// appendCommand appends a command in the form that servers expect.
func appendCommand(buf []byte, args ...string) []byte {
	buf = fmt.Appendf(buf, "*%d\r\n", len(args))
	for _, arg := range args {
		buf = fmt.Appendf(buf, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return buf
}
