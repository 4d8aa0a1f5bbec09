package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/ashlardb/ashlar/internal/invariants"
)

// printHeader prints db_bench's header: what is measured to stdout, the machine to stderr. Defaults that are not
// db_bench's have a line each.
func (b *bench) printHeader() {
	c := b.cfg
	fmt.Fprintf(b.stderr, "Ashlar:     %s, %s, GOMAXPROCS %d\n", version(), runtime.Version(), runtime.GOMAXPROCS(0))
	fmt.Fprintf(b.stderr, "Date:       %s\n", b.now().Format("Mon Jan _2 15:04:05 2006"))
	if cpus, model, cache := processor(); cpus > 0 {
		fmt.Fprintf(b.stderr, "CPU:        %d * %s\nCPUCache:   %s\n", cpus, model, cache)
	}
	shape := c.values(int(c.valueSize))
	entry := float64(c.keySize) + float64(shape.average())
	packed := float64(c.keySize) + float64(shape.average())*c.compressionRatio
	w := b.stdout
	fmt.Fprintf(w, "Keys:       %d bytes each (+ 0 bytes user-defined timestamp)\n", c.keySize)
	compressed := int(float64(shape.average())*c.compressionRatio + 0.5)
	if shape.kind == fixedSize {
		fmt.Fprintf(w, "Values:     %d bytes each (%d bytes after compression)\n", shape.size, compressed)
	} else {
		fmt.Fprintf(w, "Values:     %d avg bytes each (%d bytes after compression)\n", shape.average(), compressed)
		fmt.Fprintf(w, "Values Distribution: %s (min: %d, max: %d)\n", c.valueSizeKind, shape.min, shape.max)
	}
	fmt.Fprintf(w, "Entries:    %d\n", c.num)
	fmt.Fprintf(w, "Prefix:    %d bytes\n", c.tables.prefixSize)
	fmt.Fprintf(w, "Keys per prefix:    %d\n", c.keysPerPrefix)
	fmt.Fprintf(w, "RawSize:    %.1f MB (estimated)\n", entry*float64(c.num)/(1<<20))
	fmt.Fprintf(w, "FileSize:   %.1f MB (estimated)\n", packed*float64(c.num)/(1<<20))
	fmt.Fprintf(w, "Write rate: %d bytes/second\n", c.writeRate)
	fmt.Fprintf(w, "Read rate: %d ops/second\n", c.readRate)
	fmt.Fprintf(w, "Compression: %s\n", c.compressionType())
	fmt.Fprintln(w, "Compression sampling rate: 0")
	fmt.Fprintln(w, "Memtablerep: SkipListFactory")
	fmt.Fprintln(w, "Perf Level: 1")
	for _, line := range c.differences() {
		fmt.Fprintln(w, "NOTE:", line)
	}
	for _, line := range warnings() {
		fmt.Fprintln(w, "WARNING:", line)
	}
	fmt.Fprintln(w, strings.Repeat("-", 48))
}

// version is the commit that the binary was built from, if it knows.
func version() string {
	v := "version unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v = "version " + info.Main.Version
	}
	return v
}

// processor describes the CPUs on Linux; cpus is 0 elsewhere.
func processor() (cpus int, model, cache string) {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return 0, "", ""
	}
	defer f.Close()
	return parseProcessor(f)
}

func parseProcessor(r io.Reader) (cpus int, model, cache string) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "model name":
			cpus++
			model = value
		case "cache size":
			cache = value
		}
	}
	return cpus, model, cache
}

// warnings are what makes figures of this binary worthless.
func warnings() (lines []string) {
	if invariants.Enabled {
		lines = append(lines, "Assertions are enabled; benchmarks unnecessarily slow")
	}
	return lines
}
