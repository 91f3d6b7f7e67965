package driver

import "strings"

// Slots is how many slots the keys of a cluster are spread over.
const Slots = 16384

// Slot returns the slot of a key: a checksum of its hash tag, which is what is
// between the first { and the next }, or of the whole key if there is none.
func Slot(key string) int {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return int(crc % Slots)
}

// crcTable is that of the CRC-16 of XMODEM, whose polynomial is 0x1021.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()

// Home returns the key at whose node a channel is to be listened to: that in the
// name of a keyspace channel, which no other node publishes on, or else the
// channel itself.
func Home(channel string) string {
	if rest, ok := strings.CutPrefix(channel, "__keyspace@"); ok {
		if _, key, ok := strings.Cut(rest, "__:"); ok {
			return key
		}
	}
	return channel
}
