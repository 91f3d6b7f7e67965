package locktest

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A Rig is a server of its own and a client that reaches it through a proxy, so
// that replies can be lost. Server bypasses the proxy.
type Rig struct {
	Server *redistest.Server
	Proxy  *redistest.Proxy
	Client *holdfast.Client
}

// NewRig returns a rig for s. The client has the query in its URL.
func NewRig(tb testing.TB, s *redistest.Server, query string, o ...holdfast.Options) Rig {
	tb.Helper()
	p := redistest.NewProxy(tb, s.Addr())
	return Rig{s, p, Open(tb, p.URL()+query, o...)}
}

// DropNext drops the reply to the next script. The channel is closed when that
// has happened.
func (r Rig) DropNext() <-chan struct{} { return r.Proxy.DropReply(1, redistest.Command("EVALSHA")) }

// Disconnect cuts the connections of the client and refuses new ones.
func (r Rig) Disconnect() {
	r.Proxy.Refuse(true)
	r.Proxy.Cut()
}

// StoodStill reports whether a call that began at start, and whose reply was
// lost, has failed because this process or the server did not run. Most calls are
// repeated for a second and no longer, and may then fail. A call that fails
// without a stall on record has not been repeated as it should.
func StoodStill(stalls *redistest.StallMeter, err error, start time.Time) bool {
	return errors.Is(err, holdfast.ErrUnavailable) && stalls.Since(start) > AWhile
}

// LoseReply runs a call and loses the reply to its first script, which has run in
// any case. It reports whether the call has failed because of a standstill.
func LoseReply(stalls *redistest.StallMeter, p *redistest.Proxy, call func() error) (excused bool, err error) {
	dropped := p.DropReply(1, redistest.Command("EVALSHA"))
	start := time.Now()
	err = call()
	if _, ok := Receive(dropped, Late); !ok {
		return false, errors.Join(err, errors.New("no reply was lost"))
	}
	return StoodStill(stalls, err, start), err
}

// PatientQuery is the URL query of a client that waits for replies for longer than
// any deadline in these tests. A call that returns in time has kept its own
// deadline.
const PatientQuery = "?timeout=20s"
