package load

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Jain returns Jain's index of fairness: 1 if all shares are equal, 1/n if one of n has
// everything, 0 if there is nothing.
func Jain[N int | int64](shares []N) float64 {
	var sum, squares float64
	for _, n := range shares {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// Median returns the median of a list, or false if the list is empty. It sorts the list.
func Median(list []float64) (float64, bool) {
	n := len(list)
	if n == 0 {
		return 0, false
	}
	slices.Sort(list)
	return (list[(n-1)/2] + list[n/2]) / 2, true
}

// Percentile sorts the list, which has at least one value, and returns a percentile.
func Percentile[N ~int64](list []N, p int) N {
	slices.Sort(list)
	return list[min(len(list)-1, len(list)*p/100)]
}

// Number formats v with commas between thousands.
func Number(v float64, digits int) string {
	whole, rest, dot := strings.Cut(strconv.FormatFloat(v, 'f', digits, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if dot {
		whole += "." + rest
	}
	return whole
}

// Table writes rows as a Markdown table with aligned columns. The first row is the header.
func Table(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for n, cells := range rows {
		for i, c := range cells {
			fmt.Fprintf(w, "| %-*s ", widths[i], c)
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			for _, width := range widths {
				fmt.Fprint(w, "|", strings.Repeat("-", width+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
}
