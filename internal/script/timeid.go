package script

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var timeIDNext = load("timeid_next")

// TimeIDEpoch is the second from which time ids count: the beginning of a day,
// so that days of ids are days.
const TimeIDEpoch = 1640995200 // 2022-01-01T00:00:00Z

// An idle hash lives for two days: longer than a clock is ever behind, and the
// one that is begun then starts above it.
const timeIDLife = 48 * time.Hour

// A Stamp is what an id consists of: seconds since TimeIDEpoch, and a number.
type Stamp struct{ Sec, Seq int64 }

// A TimeID is the wire of a row of time ids: the last one. It is ours; Redisson
// has nothing of the kind.
type TimeID struct{ name string }

// NewTimeID returns the wire of the row with that name.
func NewTimeID(name string) *TimeID { return &TimeID{name} }

// Next draws n ids that differ in their number only, above the last one that
// the caller has had. It returns the first.
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
