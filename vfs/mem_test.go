package vfs

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func newMem(t *testing.T) *Mem {
	t.Helper()
	m := NewMem()
	require.NoError(t, m.MkdirAll("db"))
	require.NoError(t, m.SyncDir("/"))
	return m
}

func create(t *testing.T, m *Mem, name, synced, unsynced string) File {
	t.Helper()
	f, err := m.Create(name)
	require.NoError(t, err)
	_, err = f.Write([]byte(synced))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	_, err = f.Write([]byte(unsynced))
	require.NoError(t, err)
	return f
}

// crashes runs check on many random crashes.
func crashes(m *Mem, check func(left *Mem)) {
	for seed := range uint64(400) {
		check(m.Crash(rand.New(rand.NewPCG(seed, 0))))
	}
}

func TestTheStrictestCrashKeepsWhatWasSyncedAndNoMore(t *testing.T) {
	m := newMem(t)
	create(t, m, "db/a", "safe", " and not")
	require.NoError(t, m.SyncDir("db"))
	create(t, m, "db/b", "bytes without a name", "")
	require.NoError(t, m.Rename("db/a", "db/c"))

	left := m.Crash(nil)
	require.Equal(t, []string{"a"}, list(t, left, "db"))
	require.Equal(t, "safe", read(t, left, "db/a"))
	require.Equal(t, []string{"b", "c"}, list(t, m, "db"), "the first goes on living")
	require.Equal(t, "safe and not", read(t, m, "db/c"))

	require.NoError(t, m.SyncDir("db"))
	left = m.Crash(nil)
	require.Equal(t, []string{"b", "c"}, list(t, left, "db"))
	require.Equal(t, "safe", read(t, left, "db/c"))
}

func TestADirectoryWhoseParentWasNotSyncedIsLostWithAllInIt(t *testing.T) {
	m := NewMem()
	require.NoError(t, m.MkdirAll("db"))
	create(t, m, "db/a", "safe", "")
	require.NoError(t, m.SyncDir("db"))
	require.Empty(t, list(t, m.Crash(nil), "/"))
	require.NoError(t, m.SyncDir("/"))
	require.Equal(t, "safe", read(t, m.Crash(nil), "db/a"))
}

func TestACrashKeepsAnyPrefixOfUnsyncedBytesAndMayTearOrZeroItsEnd(t *testing.T) {
	m := newMem(t)
	safe, rest := strings.Repeat("s", 700), strings.Repeat("u", 9000)
	create(t, m, "db/a", safe, rest)
	require.NoError(t, m.SyncDir("db"))
	lengths, zeroed := map[int]bool{}, 0
	crashes(m, func(left *Mem) {
		got := read(t, left, "db/a")
		require.True(t, strings.HasPrefix(safe+rest, strings.TrimRight(got, "\x00")))
		require.True(t, strings.HasPrefix(got, safe))
		lengths[len(got)] = true
		if strings.HasSuffix(got, "\x00") {
			zeroed++
		}
	})
	require.True(t, lengths[700] && lengths[9700], "nothing and all are prefixes too")
	require.Greater(t, len(lengths), 50)
	require.Greater(t, zeroed, 10)
}

func TestACrashLosesPagesOfMappedFilesOutOfOrder(t *testing.T) {
	m := newMem(t)
	m.Mapped = func(name string) bool { return name == "/db/mapped.log" }
	safe, rest := strings.Repeat("s", 5000), strings.Repeat("u", 20000)
	create(t, m, "db/mapped.log", safe, rest)
	require.NoError(t, m.SyncDir("db"))
	holes := 0
	crashes(m, func(left *Mem) {
		got := read(t, left, "db/mapped.log")
		require.Len(t, got, 25000)
		require.True(t, strings.HasPrefix(got, safe))
		for start := 5000; start < len(got); {
			end := min(len(got), (start/page+1)*page)
			part := got[start:end]
			require.True(t, part == strings.Repeat("u", len(part)) || part == strings.Repeat("\x00", len(part)))
			start = end
		}
		if strings.Contains(got, "\x00u") {
			holes++
		}
	})
	require.Greater(t, holes, 50)
}

func TestACrashKeepsARenameWholeOrNotAtAll(t *testing.T) {
	m := newMem(t)
	require.NoError(t, m.MkdirAll("old"))
	create(t, m, "db/CURRENT", "one", "")
	require.NoError(t, m.SyncDir("/"))
	require.NoError(t, m.SyncDir("db"))
	create(t, m, "db/temp", "two", "")
	require.NoError(t, m.Rename("db/temp", "db/CURRENT"))
	create(t, m, "db/log", "moves", "")
	require.NoError(t, m.Rename("db/log", "old/log"))
	seen := map[string]int{}
	crashes(m, func(left *Mem) {
		current := read(t, left, "db/CURRENT")
		if current == "two" {
			require.NotContains(t, list(t, left, "db"), "temp")
		}
		seen[current]++
		logs := strings.Count(fmt.Sprint(list(t, left, "db"), list(t, left, "old")), "log")
		require.LessOrEqual(t, logs, 1)
		seen[fmt.Sprint(logs)]++
	})
	for _, what := range []string{"one", "two", "0", "1"} {
		require.Greater(t, seen[what], 20, what)
	}
}

func TestSyncDirKeepsWhatItsNamesRestOn(t *testing.T) {
	m := newMem(t)
	require.NoError(t, m.MkdirAll("old"))
	require.NoError(t, m.SyncDir("/"))
	create(t, m, "db/log", "x", "")
	create(t, m, "db/other", "y", "")
	require.NoError(t, m.Rename("db/log", "old/log"))
	require.NoError(t, m.SyncDir("old"))
	left := m.Crash(nil)
	require.Equal(t, []string{"log"}, list(t, left, "old"))
	require.Empty(t, list(t, left, "db"), "its other names are not synced")

	require.NoError(t, m.Rename("db", "old/db"))
	require.NoError(t, m.SyncDir("old"))
	require.Equal(t, []string{"db", "log"}, list(t, m.Crash(nil), "old"))
	require.Equal(t, []string{"other"}, list(t, m.Crash(nil), "old/db"))
}

func TestACrashMayBringARemovedFileBackUntilSyncDir(t *testing.T) {
	m := newMem(t)
	create(t, m, "db/a", "was here", "")
	require.NoError(t, m.SyncDir("db"))
	require.NoError(t, m.Remove("db/a"))
	require.Equal(t, "was here", read(t, m.Crash(nil), "db/a"))
	require.NoError(t, m.SyncDir("db"))
	require.Empty(t, list(t, m.Crash(nil), "db"))
}

func TestAnUnsyncedCutComesThroughOrNot(t *testing.T) {
	m := newMem(t)
	f := create(t, m, "db/a", "0123456789", "")
	require.NoError(t, m.SyncDir("db"))
	require.NoError(t, f.Truncate(4))
	_, err := f.Write([]byte("AB"))
	require.NoError(t, err)
	require.Equal(t, "0123456789", read(t, m.Crash(nil), "db/a"))
	seen := map[string]bool{}
	crashes(m, func(left *Mem) { seen[read(t, left, "db/a")] = true })
	for _, s := range []string{"0123456789", "0123", "0123A", "0123AB"} {
		require.True(t, seen[s], s)
	}
	require.False(t, seen["012345"])
	require.NoError(t, f.Sync())
	require.Equal(t, "0123AB", read(t, m.Crash(nil), "db/a"))
}

func TestLinkedNamesShareTheirBytesAfterACrash(t *testing.T) {
	m := newMem(t)
	create(t, m, "db/a", "12", "34")
	require.NoError(t, m.Link("db/a", "db/b"))
	require.NoError(t, m.SyncDir("db"))
	crashes(m, func(left *Mem) { require.Equal(t, read(t, left, "db/a"), read(t, left, "db/b")) })
}

func TestAProcessCrashKeepsAllThatWasWrittenButNoLocks(t *testing.T) {
	m := newMem(t)
	_, err := m.Lock("db/LOCK")
	require.NoError(t, err)
	f := create(t, m, "db/a", "12", "34")
	twin := m.Clone()
	_, err = f.Write([]byte("56"))
	require.NoError(t, err)
	require.Equal(t, "1234", read(t, twin, "db/a"))
	_, err = twin.Lock("db/LOCK")
	require.NoError(t, err)
	_, err = m.Lock("db/LOCK")
	require.ErrorIs(t, err, ErrLocked)

	require.Empty(t, list(t, twin.Crash(nil), "db"), "what was not synced still is not")
	require.NoError(t, twin.SyncDir("db"))
	require.Equal(t, "12", read(t, twin.Crash(nil), "db/a"))
	require.Empty(t, list(t, m.Crash(nil), "db"))
}

func TestACrashedFileSystemIsItsOwn(t *testing.T) {
	m := newMem(t)
	f := create(t, m, "db/a", "12", "")
	require.NoError(t, m.SyncDir("db"))
	left := m.Crash(nil)
	_, err := f.Write([]byte("live"))
	require.NoError(t, err)
	g, err := left.Create("db/a")
	require.NoError(t, err)
	_, err = g.Write([]byte("crashed"))
	require.NoError(t, err)
	require.Equal(t, "12live", read(t, m, "db/a"))
	require.Equal(t, "crashed", read(t, left, "db/a"))
	require.Equal(t, "12", read(t, left.Crash(nil), "db/a"), "all that a crash leaves is synced")
}

func TestOneSeedGivesOneCrash(t *testing.T) {
	m := newMem(t)
	for i := range 20 {
		create(t, m, fmt.Sprintf("db/%d", i), "synced", strings.Repeat("x", 100))
	}
	dump := func(seed uint64) string {
		left, s := m.Crash(rand.New(rand.NewPCG(seed, 0))), ""
		for _, name := range list(t, left, "db") {
			s += name + read(t, left, "db/"+name)
		}
		return s
	}
	for seed := range uint64(20) {
		require.Equal(t, dump(seed), dump(seed))
	}
}

func TestOnSyncIsCalledBeforeEachSyncTakesEffect(t *testing.T) {
	m := NewMem()
	var ops []string
	m.OnSync = func(op Op) {
		names, _ := m.Crash(nil).List("/")
		ops = append(ops, fmt.Sprint(op, " ", names))
	}
	create(t, m, "a", "1", "")
	require.NoError(t, m.SyncDir("/"))
	create(t, m, "b", "1", "")
	require.Equal(t, []string{"sync a []", "syncdir / []", "sync b [a]"}, ops)
}

func TestCrashesMayBeTakenWhileOthersWrite(t *testing.T) {
	m := newMem(t)
	m.OnSync = func(Op) { m.Crash(rand.New(rand.NewPCG(1, 2))) }
	// Each writer syncs its first file before its second: no crash may have the second without the first.
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			one, _ := m.Create(fmt.Sprintf("db/%d.one", w))
			two, _ := m.Create(fmt.Sprintf("db/%d.two", w))
			m.SyncDir("db")
			for range 100 {
				one.Write([]byte("x"))
				one.Sync()
				two.Write([]byte("x"))
				two.Sync()
			}
		})
	}
	for range 300 {
		left := m.Crash(nil)
		for w := range 4 {
			one, err1 := left.Stat(fmt.Sprintf("db/%d.one", w))
			two, err2 := left.Stat(fmt.Sprintf("db/%d.two", w))
			if err1 == nil && err2 == nil {
				require.GreaterOrEqual(t, one.Size(), two.Size())
			}
		}
	}
	wg.Wait()
}

func TestTheRootOfAMemIsADirectoryThatStays(t *testing.T) {
	m := NewMem()
	for _, err := range []error{m.Remove("/"), m.Rename("/", "/a"), m.Link("/", "/a")} {
		require.Error(t, err)
	}
	_, err := m.Create("/")
	require.Error(t, err)
	_, err = m.Open("/")
	require.Error(t, err)
	require.NoError(t, m.MkdirAll("/"))
	fi, err := m.Stat(".")
	require.NoError(t, err)
	require.True(t, fi.IsDir())
	_, err = m.Open("/a/b")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// BenchmarkCrash is what a crash of a database of 20 files and 1 MB costs, with one name and one log unsynced.
func BenchmarkCrash(b *testing.B) {
	m := NewMem()
	content := bytes.Repeat([]byte("x"), 50_000)
	for i := range 20 {
		f, err := m.Create(fmt.Sprintf("%d", i))
		require.NoError(b, err)
		f.Write(content)
		f.Sync()
		m.SyncDir("/")
	}
	f, _ := m.Create("log")
	f.Write(content)
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		m.Crash(rng)
	}
}
