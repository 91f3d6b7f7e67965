package rueidis

import (
	"context"
	"maps"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// facts asks a server for its Facts.
func (n *node) facts(ctx context.Context) driver.Facts {
	none := func(err error) driver.Facts { return driver.Facts{Node: n.addr, Err: err} }
	return runDetached(ctx, none, func() driver.Facts {
		if err := n.connect(); err != nil {
			return none(err)
		}
		done := n.newCallContext(context.WithoutCancel(ctx))
		defer done.release()
		done.identifies = true // these commands change nothing, so any server may answer
		multi := []rueidis.Completed{n.b().Time().Build(), n.b().Info().Build()}
		for _, name := range driver.SettingNames { // Redis before 7 accepts one name per command
			multi = append(multi, n.b().ConfigGet().Parameter(name).Build())
		}
		asked := time.Now()
		rs := (*n.client.Load()).DoMulti(done, multi...)
		took := time.Since(asked)
		text, err := rs[1].ToString()
		if err != nil {
			return none(n.timeoutCause(ctx, n.classify(err)))
		}
		f := driver.NewFacts(text)
		f.Node, f.Database = n.addr, n.c.DB
		if now, err := rs[0].AsIntSlice(); err == nil && len(now) == 2 {
			f.Clock = time.Unix(now[0], 1000*now[1]).Sub(asked.Add(took / 2))
		}
		f.Settings = make(map[string]string)
		for _, r := range rs[2:] {
			setting, err := r.AsStrMap()
			if err != nil {
				f.SettingsErr = n.classify(err) // some servers do not permit CONFIG GET
			}
			maps.Copy(f.Settings, setting)
		}
		if len(f.Settings) == 0 && f.SettingsErr == nil {
			f.SettingsErr = driver.ServerError("ERR the server does not show its settings")
		}
		n.report.replicas.Store(int64(f.Replicas)) // only this: the server's identity is not confirmed here
		return f
	})
}
