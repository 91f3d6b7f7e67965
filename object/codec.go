package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A Codec converts values to the bytes that are stored on the server, and back. Java
// peers must use the same encoding. Redisson's default codec, Kryo, cannot be read in
// Go.
//
// A Codec must be safe for concurrent use. Equal values should have equal bytes,
// because [Bucket.CompareAndSwap] compares bytes.
type Codec[T any] interface {
	Encode(T) ([]byte, error)
	Decode([]byte) (T, error)
}

// StringCodec stores a string as UTF-8, like Redisson's StringCodec. It returns an
// error for a string that is not valid UTF-8.
type StringCodec struct{}

// Encode implements [Codec].
func (StringCodec) Encode(s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errNotUTF8
	}
	return []byte(s), nil
}

// Decode implements [Codec].
func (StringCodec) Decode(b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", errNotUTF8
	}
	return string(b), nil
}

var errNotUTF8 = errors.New("not UTF-8")

// BytesCodec stores bytes unchanged, like Redisson's ByteArrayCodec.
type BytesCodec struct{}

// Encode implements [Codec].
func (BytesCodec) Encode(b []byte) ([]byte, error) { return b, nil }

// Decode implements [Codec].
func (BytesCodec) Decode(b []byte) ([]byte, error) { return b, nil }

// JSONCodec stores a value as JSON, with package encoding/json. It writes the
// same bytes as Redisson's TypedJsonJacksonCodec: without spaces, and with the
// keys of each object sorted. So values from both sides are equal, provided
// that:
//
//   - fields that Java omits because they are null are omitted in Go, too: use
//     the tag omitempty;
//   - maps are sorted in Java, too, for example in a TreeMap;
//   - numbers have no fraction, because the two languages write them
//     differently: 1 and 1.0, 1e+21 and 1.0E21.
//
// Even without these conditions, each side can read what the other writes.
// Integers of any length are kept exactly: inside a value of type any they have
// the type [json.Number].
type JSONCodec[T any] struct{}

// Encode implements [Codec].
func (JSONCodec[T]) Encode(v T) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	tree, err := decodeJSON[any](plain)
	if err != nil {
		return nil, err
	}
	return appendJSON(make([]byte, 0, len(plain)), tree), nil
}

// Decode implements [Codec].
func (JSONCodec[T]) Decode(b []byte) (T, error) { return decodeJSON[T](b) }

func decodeJSON[T any](b []byte) (T, error) {
	var v, none T
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return none, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return none, errors.New("data after the JSON value")
	}
	return v, nil
}

// appendJSON encodes the result of decodeJSON. The encoder of encoding/json
// would escape other characters than Jackson does.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSONString(b, k), ':')
			b = appendJSON(b, v[k])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, e)
		}
		return append(b, ']')
	case string:
		return appendJSONString(b, v)
	case json.Number:
		return append(b, v...)
	case bool:
		return fmt.Append(b, v)
	}
	return append(b, "null"...)
}

// appendJSONString encodes a string. Like Jackson, it also escapes characters
// beyond the first plane of Unicode.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		if i := strings.IndexRune("\"\\\b\t\n\f\r", r); i >= 0 {
			b = append(b, '\\', `"\btnfr`[i])
			continue
		}
		switch hi, lo := utf16.EncodeRune(r); {
		case r < ' ':
			b = fmt.Appendf(b, `\u%04X`, r)
		case r > 0xffff:
			b = fmt.Appendf(b, `\u%04X\u%04X`, hi, lo)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// A codecError is an error of a codec. It hides the text of the original error,
// which may contain the value.
type codecError struct {
	text  string
	cause error
}

func (e *codecError) Error() string {
	text := fmt.Sprintf("%v: %s", ErrCodec, e.text)
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.Is(e.cause, errNotUTF8):
		return text + ": not valid UTF-8"
	case errors.As(e.cause, &syntax):
		return fmt.Sprintf("%s: invalid JSON at byte %d", text, syntax.Offset)
	case errors.As(e.cause, &mismatch):
		if mismatch.Field != "" {
			text += fmt.Sprintf(": field %q", mismatch.Field)
		}
		return fmt.Sprintf("%s: expected type %v", text, mismatch.Type)
	case errors.Is(e.cause, io.EOF), errors.Is(e.cause, io.ErrUnexpectedEOF):
		return text + ": incomplete JSON"
	}
	return fmt.Sprintf("%s: the codec returned an error of type %T", text, e.cause)
}

// Is reports whether target is [ErrCodec]. There is no Unwrap: a program that
// logs the original error would log the value.
func (e *codecError) Is(target error) bool { return target == ErrCodec }
