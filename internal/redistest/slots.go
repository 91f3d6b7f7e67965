package redistest

import "strings"

// slotCount is the number of slots of a cluster.
const slotCount = 16384

// SlotOf returns the slot of a key: that of the part between the first brace
// and the next closing one, if there is any, else of the whole key.
func SlotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % slotCount
}

// crc16 is the checksum with the polynomial x^16 + x^12 + x^5 + 1, starting at
// zero, highest bit first.
func crc16(s string) uint16 {
	var sum uint16
	for i := range len(s) {
		sum ^= uint16(s[i]) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			sum <<= 1
			if carry {
				sum ^= 0x1021
			}
		}
	}
	return sum
}
