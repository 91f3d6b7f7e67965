package redistest

import "io"

// AppendCommand lets the tests speak the protocol.
var AppendCommand = appendCommand

// FrameReader lets the tests read replies. Errors of the server are values.
type FrameReader struct{ r *frameReader }

func NewFrameReader(r io.Reader) FrameReader { return FrameReader{newFrameReader(r)} }

func (r FrameReader) Next() (kind byte, value any, err error) {
	f, err := r.r.next()
	return f.kind, f.value, err
}

// NodesFile returns where a cluster node keeps what it knows of the others.
func (s *Server) NodesFile() string { return s.nodesFile() }
