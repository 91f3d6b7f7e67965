package measure

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

var types = map[Type]string{Counter: "counter", Histogram: "histogram", Sum: "gauge", Gauge: "gauge"}

// The table in docs/observability.md has a row for each figure, and no other.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Figures {
		labels := strings.Join(f.Labels, ", ")
		row := fmt.Sprintf("| `%s` | `%s` | %s | %s | %s | %s |", f.Name, f.Prometheus(), types[f.Type], strings.Trim(f.Unit, "{}"), labels, f.Help)
		row = strings.ReplaceAll(row, "|  |", "| |")
		if !strings.Contains(string(page), "\n"+row+"\n") {
			t.Errorf("docs/observability.md lacks the row\n%s", row)
		}
	}
	if rows := strings.Count(string(page), "\n| `holdfast."); rows != len(Figures) {
		t.Errorf("docs/observability.md has %d rows for %d figures", rows, len(Figures))
	}
}
