package holdfast

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// maxLabel is the maximum length of Options.Label in bytes.
const maxLabel = 128

// identity returns what a client says about itself, or nil if it is to say nothing.
func (o Options) identity() *script.Client {
	if o.Anonymous {
		return nil
	}
	c := &script.Client{PID: os.Getpid(), Label: o.Label, Library: "holdfast", Since: time.Now().UnixMilli()}
	c.Host, _ = os.Hostname()
	if len(os.Args) > 0 {
		c.Program = filepath.Base(os.Args[0])
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		c.Version = info.Main.Version
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == modulePath && m.Version != "" {
				c.Library = "holdfast " + strings.TrimSuffix(m.Version, "+incompatible")
			}
		}
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		c.Pod = os.Getenv("POD_NAME")
		if c.Pod == "" {
			c.Pod = os.Getenv("HOSTNAME")
		}
	}
	return c
}

// modulePath is the path of this module.
const modulePath = "github.com/holdfast-go/holdfast"
