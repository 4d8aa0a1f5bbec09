//go:build !race

package cache

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rss is the memory that the system says this process has, in bytes.
func rss(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

// What the cache says of its memory is what the system says: it comes with the blocks, goes with them, and none of it is Go's.
// In a process of its own: what other tests have left is given back at any moment.
func TestMemoryThatIsGivenBackShowsInTheProcess(t *testing.T) {
	if os.Getenv("ASHLAR_CHILD") == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestMemoryThatIsGivenBackShowsInTheProcess$", "-test.v")
		child.Env = append(os.Environ(), "ASHLAR_CHILD=1")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestMemoryThatIsGivenBackShowsInTheProcess")
		return
	}
	const size, some = 64 << 20, 8 << 20
	before := rss(t)
	c := New(size)
	id := c.NewID()
	for i := range uint64(size / 4096) {
		put(c, Key{id, i}, 4096)
	}
	full := rss(t)
	require.Greater(t, full-before, c.Resident()-some)
	require.Greater(t, c.Resident(), int64(size-some))
	c.SetCapacity(size / 4)
	require.Less(t, rss(t)-before, c.Resident()+some)
	require.Less(t, c.Resident(), int64(size/4+some))
	c.SetCapacity(0)
	require.Less(t, rss(t)-before, int64(some))
}
