package redistest

import (
	"errors"
	"strings"
	"testing"
)

func TestLaunchOnTakenPort(t *testing.T) {
	other := Start(t)
	s := &Server{spec: other.spec, bin: other.bin, dir: t.TempDir(), port: other.port}
	s.admin.addr = s.Addr()
	if err := s.configure(); err != nil {
		t.Fatal(err)
	}
	if err := s.launch(); !errors.Is(err, errPortTaken) {
		t.Errorf("error %v, want %v", err, errPortTaken)
	}
}

func TestStartFailureShowsLog(t *testing.T) {
	if _, err := findServer(); err != nil {
		giveUp(t, err)
	}
	_, err := start(t.TempDir(), spec{host: localhost, args: []string{"--no-such-setting", "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("error %v, want one that shows what the server complained about", err)
	}
}
