package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// outside is a place where the modules are used as dependents use them.
type outside struct {
	repo *repository
	tmp  string
	env  []string
	sums string // lines of go.sum for the released modules
}

// newOutside packs the released modules into a module proxy below tmp.
func newOutside(r *repository, tmp string) (*outside, error) {
	o := &outside{repo: r, tmp: tmp}
	fetch := []string{"list", "-deps", "-test"}
	for _, m := range r.modules {
		if !m.released {
			continue
		}
		if err := o.pack(m); err != nil {
			return nil, fmt.Errorf("%s: pack %s: %w", m.dir, m.path, err)
		}
		fetch = append(fetch, "./"+path.Join(m.dir, "..."))
	}
	if out, err := command(r.root, []string{"GOWORK=" + filepath.Join(r.root, "go.work")}, fetch...); err != nil {
		return nil, fmt.Errorf("the modules do not even load in the workspace: go list: %w\n%s", err, out)
	}
	out, err := command(r.root, nil, "env", "-json", "GOMODCACHE", "GOCACHE", "GOPROXY")
	if err != nil {
		return nil, fmt.Errorf("go env: %w\n%s", err, out)
	}
	var dirs struct{ GOMODCACHE, GOCACHE, GOPROXY string }
	if err := json.Unmarshal([]byte(out), &dirs); err != nil {
		return nil, err
	}
	o.env = []string{
		// The modules of others that are not in the cache, on a fresh machine, come from the network.
		"GOPROXY=" + fileURL(filepath.Join(tmp, "proxy")) + "," + fileURL(filepath.Join(dirs.GOMODCACHE, "cache", "download")) + "," + strings.TrimSuffix(dirs.GOPROXY, ",direct"),
		"GOMODCACHE=" + filepath.Join(tmp, "cache"),
		"GOBIN=" + filepath.Join(tmp, "bin"),
		"GOCACHE=" + dirs.GOCACHE,
		"GOENV=off", "GOWORK=off", "GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=", "GONOSUMDB=", "GOTOOLCHAIN=local",
	}
	return o, nil
}

// pack adds a module to the proxy.
func (o *outside) pack(m *mod) error {
	names, err := o.repo.files(m.dir)
	if err != nil {
		return err
	}
	dir := filepath.Join(o.repo.root, filepath.FromSlash(m.dir))
	files := make([]zip.File, len(names))
	for i, name := range names {
		files[i] = diskFile{dir, name}
	}
	v := module.Version{Path: m.path, Version: o.repo.version}
	var packed bytes.Buffer
	if err := zip.Create(&packed, v, files); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{o.repo.version, time.Now().UTC()})
	if err != nil {
		return err
	}
	base, err := o.proxied(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		filepath.Join(filepath.Dir(base), "list"): []byte(o.repo.version + "\n"),
		base + ".info": info,
		base + ".mod":  text,
		base + ".zip":  packed.Bytes(),
	} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	sum, err := dirhash.HashZip(base+".zip", dirhash.Hash1)
	if err != nil {
		return err
	}
	modSum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text)), nil
	})
	if err != nil {
		return err
	}
	o.sums += fmt.Sprintf("%s %s %s\n%s %s/go.mod %s\n", v.Path, v.Version, sum, v.Path, v.Version, modSum)
	return nil
}

// proxied returns the files of a module in the proxy, without their extension.
func (o *outside) proxied(m *mod) (string, error) {
	escaped, err := module.EscapePath(m.path)
	if err != nil {
		return "", err
	}
	return filepath.Join(o.tmp, "proxy", filepath.FromSlash(escaped), "@v", o.repo.version), nil
}

// check does with a module what the comment of the package says.
// It returns the commands of the module.
func (o *outside) check(m *mod) (commands []string, err error) {
	packages, err := o.alone(m)
	if err != nil {
		return nil, err
	}
	var libraries []string
	for _, p := range packages {
		name, importPath, _ := strings.Cut(p, " ")
		switch {
		case ownUse(importPath):
		case name == "main":
			commands = append(commands, importPath)
		default:
			libraries = append(libraries, importPath)
		}
	}
	if len(libraries) > 0 {
		if err := o.consume(m, libraries); err != nil {
			return nil, err
		}
	}
	for _, c := range commands {
		if err := o.install(c); err != nil {
			return nil, err
		}
	}
	fmt.Printf("%s@%s can be used: packages imported %d, commands installed %d\n", m.path, o.repo.version, len(libraries), len(commands))
	return commands, nil
}

// ownUse reports whether a package is for the repository only: below internal
// or test.
func ownUse(importPath string) bool {
	elements := strings.Split(importPath, "/")
	return slices.Contains(elements, "internal") || slices.Contains(elements, "test")
}

// alone compiles the packages and the tests of a module with its own go.mod and
// go.sum. It returns the packages, each as its name and its import path.
func (o *outside) alone(m *mod) ([]string, error) {
	base, err := o.proxied(m)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(o.tmp, "alone", filepath.FromSlash(m.path))
	if err := zip.Unzip(dir, module.Version{Path: m.path, Version: o.repo.version}, base+".zip"); err != nil {
		return nil, err
	}
	// The sums of our own modules are not in the repository: each commit changes them.
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(dir, "go.sum")); err != nil { // it is read-only
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), append(sums, o.sums...), 0o644); err != nil {
		return nil, err
	}
	const flags = "GOFLAGS=-mod=readonly -modcacherw -trimpath -buildvcs=false"
	out, err := command(dir, append(o.env, flags), "list", "-f", "{{if .GoFiles}}{{.Name}} {{.ImportPath}}{{end}}", "./...")
	if err != nil {
		return nil, fmt.Errorf("%s: does not load outside of the workspace: %w\n%s%s", m.dir, err, out, advice)
	}
	if out, err := command(dir, append(o.env, flags), "vet", "./..."); err != nil {
		return nil, fmt.Errorf("%s: does not build outside of the workspace: %w\n%s%s", m.dir, err, out, advice)
	}
	return slices.DeleteFunc(strings.Split(out, "\n"), func(s string) bool { return s == "" }), nil
}

// consume builds a program of another module that imports packages of m.
func (o *outside) consume(m *mod, packages []string) error {
	dir := filepath.Join(o.tmp, "consumer", filepath.FromSlash(m.path))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("module example.com/consumer\n\ngo %s\n\nrequire %s %s\n", m.file.Go.Version, m.path, o.repo.version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
		return err
	}
	program := "package main\n\nimport (\n"
	for _, p := range packages {
		program += fmt.Sprintf("\t_ %q\n", p)
	}
	program += ")\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		return err
	}
	if out, err := command(dir, append(o.env, "GOFLAGS=-mod=mod -modcacherw -trimpath"), "build", "-o", filepath.Join(dir, "consumer"), "."); err != nil {
		return fmt.Errorf("%s: a program that imports it does not build: %w\n%s%s", m.dir, err, out, advice)
	}
	return nil
}

// install installs a command of a released module and asks for its version.
func (o *outside) install(pkg string) error {
	if out, err := command(o.tmp, append(o.env, "GOFLAGS=-modcacherw -trimpath"), "install", pkg+"@"+o.repo.version); err != nil {
		return fmt.Errorf("go install %s@%s: %w\n%s%s", pkg, o.repo.version, err, out, advice)
	}
	out, err := exec.Command(filepath.Join(o.tmp, "bin", path.Base(pkg)), "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s --version: %w\n%s", path.Base(pkg), err, out)
	}
	if !slices.Contains(strings.Fields(string(out)), o.repo.version) {
		return fmt.Errorf("%s --version prints %q, want %s in it", path.Base(pkg), out, o.repo.version)
	}
	return nil
}

const advice = "In a clone go.work may hide this. Run make tidy, which writes go.mod and go.sum anew. " +
	"If a module of others is missing, run go mod download with a network.\n"

// command runs the go command in a directory, with more variables. It returns
// what the command prints, and if it fails, what it prints to either stream.
func command(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// fileURL returns the URL of a directory.
func fileURL(dir string) string {
	dir = filepath.ToSlash(dir)
	if !strings.HasPrefix(dir, "/") { // C:/
		dir = "/" + dir
	}
	return (&url.URL{Scheme: "file", Path: dir}).String()
}

// A diskFile is a file to pack.
type diskFile struct{ dir, name string }

func (f diskFile) Path() string                 { return f.name }
func (f diskFile) Lstat() (os.FileInfo, error)  { return os.Lstat(f.full()) }
func (f diskFile) Open() (io.ReadCloser, error) { return os.Open(f.full()) }
func (f diskFile) full() string                 { return filepath.Join(f.dir, filepath.FromSlash(f.name)) }
