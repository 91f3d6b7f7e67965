package dashboard

import "time"

// LingerTime is how long the scanner runs after a request without a stream.
const LingerTime = lingerTime

// Scans returns how many snapshots the scanner has published.
func (d *Dashboard) Scans() int {
	d.scanner.mu.Lock()
	defer d.scanner.mu.Unlock()
	return d.scanner.scans
}

// Pace returns how long the last round has used the server, and the time between two
// rounds.
func (d *Dashboard) Pace() (busy, every time.Duration) {
	p := d.scanner.last()
	return p.busy, p.every
}

// Visible is visible.
var Visible = visible

// Routes returns all paths.
func Routes() (paths []string) {
	for path := range routes {
		paths = append(paths, path)
	}
	return paths
}

// MaxStreams is the limit of streams.
const MaxStreams = maxStreams
