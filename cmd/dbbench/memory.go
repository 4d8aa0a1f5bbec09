package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// gcPercent is GOGC unless the environment has it. The engine's large memory, memtables and the block cache, lies
	// outside Go's heap, which is so small that the usual 100 would collect it all the time.
	gcPercent = 400
	// leastHeap is what the heap may have in any case.
	leastHeap = 256 << 20
)

// setMemory sets GOGC and GOMEMLIMIT, each unless the environment has it. The limit is three quarters of what the machine,
// or the control group, has, less what the engine takes outside the heap.
func setMemory(c *config) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		if total := machineMemory(); total > 0 {
			debug.SetMemoryLimit(heapLimit(total, c))
		}
	}
}

func heapLimit(total int64, c *config) int64 {
	outside := c.cacheSize + c.families*(c.writeBuffers+1)*int64(min(c.writeBuffer, 1<<40))
	return max(total/4*3-outside, leastHeap)
}

// machineMemory is how many bytes of memory there are to use, on Linux; 0 elsewhere.
func machineMemory() (bytes int64) {
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		bytes = parseMemTotal(string(b))
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && (bytes == 0 || n < bytes) {
			bytes = n
		}
	}
	return bytes
}

func parseMemTotal(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
