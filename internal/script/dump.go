package script

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A package holds the dumps of several keys:
//
//	1 byte   version, 1
//	1 byte   length of the kind, and the kind
//	per key that exists:
//	  1 byte   its index, from 0, in ascending order
//	  varint   length of its dump, and the dump
//	4 bytes  CRC-32 (IEEE) of all this, big-endian
const packVersion = 1

var (
	errEmpty   = errors.New("it is empty")
	errDamaged = errors.New("it is damaged, or something else")
)

func pack(kind string, dumps []string) []byte {
	b := append([]byte{packVersion, byte(len(kind))}, kind...)
	for i, d := range dumps {
		if d != "" {
			b = append(binary.AppendUvarint(append(b, byte(i)), uint64(len(d))), d...)
		}
	}
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// unpack returns the dumps of n keys of an object of that kind.
func unpack(kind string, b []byte, n int) ([]string, error) {
	if len(b) == 0 {
		return nil, errEmpty
	}
	body := b[:max(len(b)-4, 0)]
	if len(body) < 2 || binary.BigEndian.Uint32(b[len(body):]) != crc32.ChecksumIEEE(body) {
		return nil, errDamaged
	}
	if body[0] != packVersion {
		return nil, fmt.Errorf("it has version %d, and this program knows only %d", body[0], packVersion)
	}
	of, rest, ok := cut(body[2:], uint64(body[1]))
	if !ok {
		return nil, errDamaged
	}
	if string(of) != kind {
		return nil, fmt.Errorf("it is of a %.40q", of)
	}
	dumps, last := make([]string, n), -1
	for len(rest) > 0 {
		i := int(rest[0])
		size, m := binary.Uvarint(rest[1:])
		if i <= last || i >= n || m <= 0 || size == 0 {
			return nil, errDamaged
		}
		var dump []byte
		if dump, rest, ok = cut(rest[1+m:], size); !ok {
			return nil, errDamaged
		}
		dumps[i], last = string(dump), i
	}
	if last < 0 {
		return nil, errEmpty
	}
	return dumps, nil
}

// cut splits b after n bytes.
func cut(b []byte, n uint64) (head, rest []byte, ok bool) {
	if n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}
