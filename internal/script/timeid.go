package script

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var timeIDNext = load("timeid_next")

// TimeIDEpoch is the epoch of time ids in Unix seconds. It is the beginning of a
// day, so that a day of ids is a calendar day.
const TimeIDEpoch = 1640995200 // 2022-01-01T00:00:00Z

// timeIDLife is the TTL of an idle hash: two days. No clock is behind for so
// long, so a new hash starts above the old one.
const timeIDLife = 48 * time.Hour

// A Stamp is the content of an id: seconds since TimeIDEpoch, and a number.
type Stamp struct{ Sec, Seq int64 }

// A TimeID is the wire format of a series of time ids: the last one of them.
// Redisson has no such object.
type TimeID struct{ name string }

// NewTimeID returns the series with that name.
func NewTimeID(name string) *TimeID { return &TimeID{name} }

// Next allocates n ids that differ only in their number, above the caller's last
// one. It returns the first.
func (t *TimeID) Next(ctx context.Context, d driver.Driver, last Stamp, n int) (Stamp, error) {
	r, err := d.Do(ctx, driver.Call{
		Script: timeIDNext,
		Keys:   []string{t.name},
		Args:   []string{decimal(int64(n)), decimal(last.Sec), decimal(last.Seq), decimal(TimeIDEpoch), millis(timeIDLife)},
	})
	if err != nil {
		return Stamp{}, err
	}
	if r.Type != driver.List || len(r.List) != 2 || r.List[0].Type != driver.Int || r.List[1].Type != driver.Int {
		return Stamp{}, unexpected(timeIDNext, r)
	}
	s := Stamp{r.List[0].Int, r.List[1].Int}
	if s.Sec < last.Sec || s.Sec >= 1<<31 || s.Seq < 1 || s.Seq >= 1<<32-int64(n-1) || s.Sec == last.Sec && s.Seq <= last.Seq {
		return Stamp{}, unexpected(timeIDNext, r)
	}
	return s, nil
}
