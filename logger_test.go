package holdfast_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// A client without a logger logs warnings through the default logger of the
// moment, and nothing below.
func TestDefaultLogger(t *testing.T) {
	log := locktest.CaptureDefaultLog(t)
	h := holdfast.DefaultLogger().With("a", 1).WithGroup("g").With("b", 2)
	for level, enabled := range map[slog.Level]bool{slog.LevelDebug: false, slog.LevelInfo: false, slog.LevelWarn: true, slog.LevelError: true} {
		if h.Enabled(context.Background(), level) != enabled {
			t.Errorf("%v is enabled: %v, want %v", level, !enabled, enabled)
		}
	}
	h.Info("quiet")
	if h.Warn("loud"); log.String() == "" || strings.Contains(log.String(), "quiet") || !strings.Contains(log.String(), "msg=loud a=1 g.b=2") {
		t.Errorf("the log says %q", log)
	}
	later := locktest.CaptureDefaultLog(t)
	if h.Warn("later"); !strings.Contains(later.String(), "msg=later") {
		t.Errorf("the new default logger got %q", later)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(later, &slog.HandlerOptions{Level: slog.LevelError})))
	if h.Enabled(context.Background(), slog.LevelWarn) {
		t.Error("the default logger wants errors only, and gets warnings")
	}
}
