package child

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// findDescendants updates the known descendants of the program and reports whether there
// are new ones. Known descendants are kept, because a process whose parent has
// ended can no longer be found. Processes that lost their parent before the first
// call are not found.
func (c *Child) findDescendants() bool {
	for pid, p := range c.descendants {
		if p.Signal(syscall.Signal(0)) != nil {
			delete(c.descendants, pid) // it has ended, and its id may be reused
		}
	}
	known := len(c.descendants)
	parents := parents()
	for found := true; found; {
		found = false
		for pid, parent := range parents {
			if c.descendants[pid] == nil && c.descendants[parent] != nil {
				c.descendants[pid], _ = os.FindProcess(pid)
				found = true
			}
		}
	}
	return len(c.descendants) > known
}

// parents returns the parent of every process.
func parents() map[int]int {
	all := make(map[int]int)
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // the process has just ended
		}
		// 42 (name) S 1 ...: the name may contain any characters.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if len(fields) > 1 {
			all[pid], _ = strconv.Atoi(string(fields[1]))
		}
	}
	return all
}
