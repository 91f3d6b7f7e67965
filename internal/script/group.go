package script

import (
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	mutexesAcquire = load("mutexes_acquire")

	groupAcquire = join("group_acquire", append(groupScripts(func(k Kind) *driver.Script { return k.Acquire }), groupReleases...)...)
	groupRelease = join("group_release", groupReleases...)

	groupReleases = groupScripts(func(k Kind) *driver.Script { return k.Release })
)

// groupScripts returns a script of each kind that can be part of a group.
func groupScripts(of func(Kind) *driver.Script) []*driver.Script {
	var scripts []*driver.Script
	for _, k := range Kinds {
		if s := of(k); s != nil && !slices.Contains(scripts, s) {
			scripts = append(scripts, s)
		}
	}
	return scripts
}

// CanGroup reports whether the claim of a lock can be part of a group.
func CanGroup(claim driver.Call) bool {
	return slices.ContainsFunc(Kinds, func(k Kind) bool { return k.Acquire == claim.Script })
}

// IsMutex reports whether a claim is that of a mutex. A group of mutexes has a script of its
// own.
func IsMutex(claim driver.Call) bool { return claim.Script == mutexAcquire }

// join returns the script in lua/name.lua, behind functions that do what the
// parts do. Such a function has redis as a parameter, so that the script can
// decide what becomes of its commands.
func join(name string, parts ...*driver.Script) *driver.Script {
	var b strings.Builder
	b.WriteString("local scripts = {}\n")
	for _, p := range parts {
		b.WriteString("scripts." + p.Name + " = function(KEYS, ARGV, redis)\n" + p.Source + "end\n")
	}
	return newScript(name, b.String()+read("lib/group"))
}

// ClaimGroup returns the call that runs all claims of an owner or none. All keys must
// share a slot. If not all claims are those of mutexes, the call needs those that free what
// each claim takes.
func ClaimGroup(claims []driver.Call, free func(i int) driver.Call) driver.Call {
	if !slices.ContainsFunc(claims, func(c driver.Call) bool { return !IsMutex(c) }) {
		return claimMutexes(claims)
	}
	c := driver.Call{Script: groupAcquire}
	for i := range claims {
		appendCall(&c, claims[i])
		appendCall(&c, free(i))
	}
	return c
}

// claimMutexes returns the call that takes several mutexes.
func claimMutexes(claims []driver.Call) driver.Call {
	c := driver.Call{Script: mutexesAcquire, Keys: make([]string, len(claims)), Args: claims[0].Args[:2]}
	for i, claim := range claims {
		c.Keys[i] = claim.Keys[0]
		if i > 0 {
			Done(claim)
		}
	}
	return c
}

// DecodeGroup decodes the reply to the claims on that many locks. If they were not
// granted, it also returns the index of the lock that was not free. If all are mutexes, they
// have one token.
func DecodeGroup(r driver.Reply, n int, mutexes bool) (v Verdict, blocker int, err error) {
	if mutexes && r.Type == driver.Int && r.Int > 0 {
		return Verdict{Token: r.Int}, 0, nil
	}
	bad := r.Type != driver.List || len(r.List) == 0
	for _, e := range r.List {
		bad = bad || e.Type != driver.Int
	}
	switch {
	case bad:
	case r.List[0].Int != 0 && len(r.List) == 2:
		if i := r.List[0].Int - 1; i >= 0 && i < int64(n) {
			return verdict(min(r.List[1].Int, 0)), int(i), nil
		}
	case r.List[0].Int == 0 && len(r.List) == 1+n && !mutexes:
		v := Verdict{Token: 1, Tokens: make([]int64, n)}
		for i := range n {
			v.Tokens[i] = r.List[1+i].Int
		}
		return v, 0, nil
	}
	return Verdict{}, 0, unexpected(groupAcquire, r)
}

// FreeGroup returns the call that frees the parts of a group.
func FreeGroup(frees []driver.Call) driver.Call {
	c := driver.Call{Script: groupRelease, Args: []string{publish}}
	for _, f := range frees {
		appendCall(&c, f)
	}
	return c
}

// appendCall appends a call to the arguments of another one.
func appendCall(c *driver.Call, part driver.Call) {
	c.Keys = append(c.Keys, part.Keys...)
	c.Args = append(c.Args, part.Script.Name, strconv.Itoa(len(part.Keys)), strconv.Itoa(len(part.Args)))
	c.Args = append(c.Args, part.Args...)
}
