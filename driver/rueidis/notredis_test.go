package rueidis_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// A port that is not Redis's is told from a server that cannot be reached.
func TestNotRedis(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	says := func(greeting string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(greeting))
				_, _ = conn.Read(make([]byte, 100))
				_ = conn.Close()
			}
		}()
		return l.Addr().String()
	}
	for name, addr := range map[string]string{
		"http":      strings.TrimPrefix(web.URL, "http://"),
		"ssh":       says("SSH-2.0-OpenSSH_9.2\r\n"),
		"a letter":  says("commands?\r\n"),
		"TLS alert": says("\x15\x03\x01\x00\x02\x02\x28"),
	} {
		err := try(t, "redis://"+addr)
		if !errors.Is(err, driver.ErrNotRedis) || !strings.Contains(err.Error(), "the server does not speak the Redis protocol") || len(err.Error()) > 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
