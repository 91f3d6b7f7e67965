package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast-go/holdfast/interop"
)

const fromRedisson = "../docs/from-redisson.md"

// documented maps the types of Redisson to their sections in docs/from-redisson.md,
// which lists all methods of these types.
var documented = []struct{ class, section string }{
	{"RLock", "RLock"},
	{"RFencedLock", "RFencedLock"},
	{"RReadWriteLock", "RReadWriteLock"},
	{"LockOptions", "LockOptions"},
	{"LockOptions$BackOff", "LockOptions"},
	{"LockOptions$ExponentialBackOff", "LockOptions"},
	{"LockOptions$ConstantBackOff", "LockOptions"},
	{"RSemaphore", "RSemaphore"},
	{"RPermitExpirableSemaphore", "RPermitExpirableSemaphore"},
	{"RCountDownLatch", "RCountDownLatch"},
	{"RRateLimiter", "RRateLimiter"},
	{"RateLimiterConfig", "RRateLimiter"},
	{"ratelimiter.RateLimiterArgs", "RRateLimiter"},
	{"RIdGenerator", "RIdGenerator"},
	{"RAtomicLong", "RAtomicLong"},
	{"atomic.LongIncrementArgs", "RAtomicLong"},
	{"atomic.BaseIncrementArgs", "RAtomicLong"},
	{"RBucket", "RBucket"},
	{"bucket.CompareAndSetArgs", "RBucket"},
	{"bucket.CompareAndSetStep", "RBucket"},
	{"bucket.CompareAndDeleteArgs", "RBucket"},
	{"RObject", "RObject"},
	{"RExpirable", "RExpirable"},
}

// The page lists every method of Redisson in both releases.
func TestMethodsDocumented(t *testing.T) {
	page := read(t, fromRedisson)
	releases(t, func(t *testing.T, release interop.Release) {
		for _, d := range documented {
			all := methods(t, release, "org.redisson.api."+d.class)
			if len(all) == 0 && release == interop.Current {
				t.Errorf("Redisson has no %s any more", d.class)
			}
			own, any := signatures(section(page, d.section)), signatures(page)
			for _, m := range all {
				listed := own
				if m.class != d.class {
					listed = any // an inherited method may be in the section of another subtype
				}
				if !twin(m, all) && !slices.Contains(listed, m.signature()) {
					t.Errorf("%s: %s of %s is missing in the section %s", fromRedisson, m.signature(), m.class, d.section)
				}
			}
		}
	})
}

// The Java code in the page compiles.
func TestSnippetsCompile(t *testing.T) {
	var methods strings.Builder
	for _, m := range regexp.MustCompile("(?s)\n```java\n(.*?)```").FindAllStringSubmatch(read(t, fromRedisson), -1) {
		methods.WriteString(m[1])
	}
	source := `
import java.util.concurrent.TimeUnit;
import org.redisson.api.*;

abstract class Snippets {
    abstract void work();
    abstract void send(long token);
` + methods.String() + "}\n"
	dir := t.TempDir()
	file := filepath.Join(dir, "Snippets.java")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("javac", "-proc:none", "-d", dir, "-cp", "target/current/lib/*", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The page lists every method that returns such an object.
func TestGettersDocumented(t *testing.T) {
	listed := signatures(section(read(t, fromRedisson), "RedissonClient"))
	releases(t, func(t *testing.T, release interop.Release) {
		found := 0
		for _, m := range methods(t, release, "org.redisson.api.RedissonClient") {
			if !isDocumented(m.returns) {
				continue
			}
			found++
			if !slices.Contains(listed, m.signature()) {
				t.Errorf("%s: %s, which returns %s, is missing", fromRedisson, m.signature(), m.returns)
			}
		}
		if found == 0 {
			t.Error("Redisson has none")
		}
	})
}

// The page on configuration lists every setting that Redisson can read from a file.
func TestSettingsDocumented(t *testing.T) {
	const file = "../docs/configuration.md"
	page := read(t, file)
	releases(t, func(t *testing.T, release interop.Release) {
		for _, class := range []string{
			"Config", "SingleServerConfig", "MasterSlaveServersConfig", "ReplicatedServersConfig", "SentinelServersConfig", "ClusterServersConfig",
		} {
			for _, m := range methods(t, release, "org.redisson.config."+class) {
				name, ok := strings.CutPrefix(m.name, "set")
				if !ok || len(m.params) != 1 {
					continue
				}
				if key := string(unicode.ToLower(rune(name[0]))) + name[1:]; !strings.Contains(page, "`"+key+"`") {
					t.Errorf("%s: %s of %s is missing", file, key, class)
				}
			}
		}
	})
}

// A method is a Java method.
type method struct {
	class, returns, name string
	params               []string
}

// signature returns the method in the form of the page, such as tryLock(long, TimeUnit).
func (m method) signature() string { return m.name + "(" + strings.Join(m.params, ", ") + ")" }

// methods returns the public methods of a type, or none if the type does not exist.
func methods(t *testing.T, release interop.Release, class string) (all []method) {
	t.Helper()
	p := peer(t, release)
	type ref map[string]string
	kept := "type " + class // not the plain name, which calls on the class use
	a := p.Do(interop.Call{On: "java.lang.Class", Method: "forName", Args: []any{class}, As: kept})
	if strings.Contains(a.Error, "ClassNotFoundException") {
		return nil
	}
	good(t, a)
	good(t, p.Do(interop.Call{On: kept, Method: "getMethods", As: kept + " methods"}))
	a = good(t, p.Do(interop.Call{On: "java.util.Arrays", Method: "asList", Args: []any{ref{"ref": kept + " methods"}}}))
	text := regexp.MustCompile(`(\S+) (\S+)\.(\w+)\((.*?)\)`)
	for _, s := range a.Value.([]any) {
		f := text.FindStringSubmatch(s.(string))
		if f[2] == "java.lang.Object" {
			continue
		}
		m := method{class: short(f[2]), returns: short(f[1]), name: f[3]}
		for param := range strings.SplitSeq(f[4], ",") {
			if param != "" {
				m.params = append(m.params, simple(param))
			}
		}
		all = append(all, m)
	}
	return all
}

// short returns the name of a type without the package of Redisson.
func short(class string) string { return strings.TrimPrefix(class, "org.redisson.api.") }

// simple returns the name of a type as written in Java code.
func simple(class string) string {
	class = class[strings.LastIndexAny(class, ".$")+1:]
	if class == "Object" {
		return "V" // in these interfaces every Object parameter is a V
	}
	return class
}

func isDocumented(class string) bool {
	return slices.ContainsFunc(documented, func(d struct{ class, section string }) bool { return d.class == class })
}

// twin reports whether a method is the asynchronous form of another method. The page has
// one line for both.
func twin(m method, all []method) bool {
	name, ok := strings.CutSuffix(m.name, "Async")
	m.name = name
	return ok && slices.ContainsFunc(all, func(s method) bool { return s.signature() == m.signature() })
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// section returns the text under a heading.
func section(page, heading string) string {
	_, after, _ := strings.Cut(page, "\n## "+heading+"\n")
	text, _, _ := strings.Cut(after, "\n## ")
	return text
}

// signatures returns the methods in the first column of a section's tables,
// without the names of their parameters.
func signatures(section string) (all []string) {
	code := regexp.MustCompile("`(\\w+)\\(([^`]*)\\)`")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(cells[1], -1) {
			var types []string
			for param := range strings.SplitSeq(m[2], ",") {
				if f := strings.Fields(param); len(f) > 0 {
					types = append(types, simple(strings.ReplaceAll(f[0], "...", "[]")))
				}
			}
			all = append(all, m[1]+"("+strings.Join(types, ", ")+")")
		}
	}
	return all
}
