package driver

import "strings"

// Slots is the number of slots of a cluster.
const Slots = 16384

// Slot returns the slot of a key. It is a checksum of the hash tag, which is
// the part between the first { and the next }, or of the whole key if there is
// no hash tag.
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

// crcTable is the table of the CRC-16 of XMODEM, with the polynomial 0x1021.
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

// Home returns a key on the node where a listener must subscribe to a channel.
// For a keyspace channel it is the key in its name, because only the node of
// that key publishes its events. For other channels it is the channel itself.
func Home(channel string) string {
	if rest, ok := strings.CutPrefix(channel, "__keyspace@"); ok {
		if _, key, ok := strings.Cut(rest, "__:"); ok {
			return key
		}
	}
	return channel
}
