package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/wal"
)

// goldens are the directories of databases that RocksDB wrote.
func goldens(t *testing.T) []string {
	dirs, err := filepath.Glob("../testdata/rocksdb/*/db")
	require.NoError(t, err)
	require.Greater(t, len(dirs), 60)
	return dirs
}

func TestRocksDBsManifestsAreRead(t *testing.T) {
	for _, dir := range goldens(t) {
		t.Run(filepath.Base(filepath.Dir(dir)), func(t *testing.T) {
			vs, err := Recover(vfs.OS, dir, Options{})
			require.NoError(t, err)

			var names []string
			text, err := os.ReadFile(filepath.Join(dir, "../expected.txt"))
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				if name, ok := strings.CutPrefix(line, "# cf "); ok {
					names = append(names, strings.TrimSpace(name))
				}
			}
			var got []string
			var largest kv.Seq
			for _, info := range vs.Families() {
				got = append(got, info.Name)
				require.Equal(t, kv.Bytewise.Name, info.Comparer)
				require.NoError(t, info.Version.Check(kv.Bytewise))
				for _, f := range info.Version.All() {
					largest = max(largest, f.LargestSeq)
					require.NotZero(t, f.Epoch)
					stat, err := os.Stat(filepath.Join(dir, fname.Make(fname.Table, f.Num)))
					require.NoError(t, err)
					require.Equal(t, uint64(stat.Size()), f.Size)
				}
			}
			require.Equal(t, names, got)
			require.GreaterOrEqual(t, vs.LastSeq(), largest)

			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			next, newest := vs.NewFileNum(), uint64(0)
			for _, e := range entries {
				kind, num, ok := fname.Parse(e.Name())
				require.True(t, ok, e.Name())
				if kind != fname.Options {
					require.Greater(t, next, num, "a number in use would be given out again")
				}
				if kind == fname.Log {
					newest = max(newest, num)
				}
			}
			require.GreaterOrEqual(t, newest, vs.MinLogToKeep(), "the log that was written to last would not be read")

			// What was read, written by us, is read as the same.
			m := newDir(t)
			s := vs.state.Load()
			require.NoError(t, writeState(m, s))
			require.Equal(t, describe(vs), describe(reopen(t, m, Options{})))
		})
	}
}

// writeState makes s the database "db" in m.
func writeState(m vfs.FS, s *state) error {
	vs := newSet(m, "db", Options{})
	b := newBuilder(vs.o, nil)
	for _, e := range s.records(1) {
		if err := b.apply(e); err != nil {
			return err
		}
	}
	fresh, err := b.finish()
	if err != nil {
		return err
	}
	vs.begin(fresh)
	return vs.Apply(nil, nil)
}

// Edits of RocksDB that have nothing in them that we leave out are written by us with the same bytes.
func TestRocksDBsEditsAreWrittenAsRocksDBDoes(t *testing.T) {
	same, other := 0, 0
	for _, dir := range goldens(t) {
		num, err := CurrentManifest(vfs.OS, dir)
		require.NoError(t, err)
		path := filepath.Join(dir, fname.Make(fname.Manifest, num))
		f, err := vfs.OS.Open(path)
		require.NoError(t, err)
		size, err := f.Size()
		require.NoError(t, err)
		for r := wal.NewReader(f, size, path, 0); ; {
			rec, off, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			var e, again Edit
			require.NoError(t, e.Decode(path, off, rec))
			ours := e.Append(nil)
			require.NoError(t, again.Decode(path, off, ours))
			require.Equal(t, e, again)
			if bytes.Equal(ours, rec) {
				same++
			} else {
				other++
				// Left out: tag 8200 and above, and a file's copy of the least log to keep.
				require.Less(t, len(ours), len(rec), "%x became %x", rec, ours)
				require.True(t, bytes.Contains(rec, []byte{3, 8}) || bytes.Contains(rec, []byte{0x40}), "%x became %x", rec, ours)
			}
		}
		require.NoError(t, f.Close())
	}
	t.Logf("%d edits have the same bytes, %d have fields that we leave out", same, other)
	require.Greater(t, same, 3*other)
}

// ldb finds RocksDB's tool, or ends the test: as a failure where it must be there.
func ldb(t *testing.T) (string, bool) {
	path, err := exec.LookPath("ldb")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("ldb of RocksDB is not installed")
		}
		t.Log("ldb of RocksDB is not installed; nothing was compared")
		return "", false
	}
	return path, true
}

var (
	dumpFamily = regexp.MustCompile(`^-+ Column family "(.*)"  \(ID (\d+)\) -+$`)
	dumpLevel  = regexp.MustCompile(`^--- level (\d+) ---`)
	dumpFile   = regexp.MustCompile(`^ \d+:`)
	dumpShared = regexp.MustCompile(`next_file_number (\d+) last_sequence (\d+) .*max_column_family (\d+) min_log_number_to_keep (\d+)`)
)

// dumpOf is what ldb says about a manifest, in the form of ourDump.
func dumpOf(t *testing.T, tool, path string) string {
	out, err := exec.Command(tool, "manifest_dump", "--verbose", "--path="+path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "Error in processing")
	var b strings.Builder
	level := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case dumpFamily.MatchString(line):
			m := dumpFamily.FindStringSubmatch(line)
			fmt.Fprintf(&b, "family %s %s\n", m[2], m[1])
		case strings.HasPrefix(line, "log number: "), strings.HasPrefix(line, "comparator: "):
			b.WriteString(line + "\n")
		case dumpLevel.MatchString(line):
			level = dumpLevel.FindStringSubmatch(line)[1]
		case dumpFile.MatchString(line):
			fmt.Fprintf(&b, "level %s:%s\n", level, line)
		case dumpShared.MatchString(line):
			fmt.Fprintf(&b, "shared %q\n", dumpShared.FindStringSubmatch(line)[2:])
		}
	}
	return b.String()
}

// ourDump is what a set holds in ldb's words.
func ourDump(vs *VersionSet) string {
	var b strings.Builder
	key := func(k kv.Key) string { return fmt.Sprintf("'%s' seq:%d, type:%d", k.User, k.Seq(), k.Kind()) }
	s := vs.state.Load()
	for _, info := range vs.Families() {
		fmt.Fprintf(&b, "family %d %s\nlog number: %d\ncomparator: %s\n", info.ID, info.Name, info.LogNumber, info.Comparer)
		for level, f := range info.Version.All() {
			fmt.Fprintf(&b, "level %d: %d:%d[%d .. %d][%s .. %s]\n", level, f.Num, f.Size, f.SmallestSeq, f.LargestSeq, key(f.Smallest), key(f.Largest))
		}
	}
	fmt.Fprintf(&b, "shared %q\n", []string{fmt.Sprint(s.lastSeq), fmt.Sprint(s.maxFamily), fmt.Sprint(s.minLog)})
	return b.String()
}

func TestRocksDBsToolSaysTheSameOfItsManifests(t *testing.T) {
	tool, ok := ldb(t)
	if !ok {
		return
	}
	// The others differ in what is in the tables, not in the manifest.
	different := regexp.MustCompile(`/(119|78-0|78-14|78-6)`)
	for _, dir := range goldens(t) {
		if !different.MatchString(dir) {
			continue
		}
		vs, err := Recover(vfs.OS, dir, Options{})
		require.NoError(t, err)
		theirs := dumpOf(t, tool, filepath.Join(dir, fname.Make(fname.Manifest, vs.ManifestNumber())))
		require.Equal(t, families(theirs), families(ourDump(vs)), dir)
	}
}

// families cuts the last line of a dump off: what is in it may be raised when it is read.
func families(dump string) string { return dump[:strings.Index(dump, "shared")] }

func TestRocksDBsToolReadsOurManifests(t *testing.T) {
	tool, ok := ldb(t)
	if !ok {
		return
	}
	dir := t.TempDir()
	vs, err := Create(vfs.OS, dir, Options{DBID: "6d7fd118-8ac3-47a3-bb6d-727696b8f50f"})
	require.NoError(t, err)
	check := func() {
		t.Helper()
		require.Equal(t, ourDump(vs), dumpOf(t, tool, filepath.Join(dir, fname.Make(fname.Manifest, vs.ManifestNumber()))))
	}
	check()
	apply := func(edits ...*Edit) {
		t.Helper()
		require.NoError(t, vs.Apply(edits, nil))
		check()
	}
	whole := wholeEdit().Add[0].File
	whole.Num, whole.Largest = 4, kv.MakeKey([]byte("b"), 1, kv.KindSingleDel)
	whole.LargestSeq = 9 // RocksDB 7.8 orders level 0 by sequences, which must not overlap
	apply(&Edit{LogNumber: new(uint64(3)), Add: []AddedFile{{0, whole}}, LastSeq: new(kv.Seq(1 << 40))})
	apply(flushed(0, 5, "a", "m"))
	apply(&Edit{Family: vs.NewFamilyID(), AddFamily: "users", LogNumber: new(uint64(5))})
	apply(&Edit{Family: vs.NewFamilyID(), AddFamily: "gone"})
	apply(flushed(0, 7, "a", "m"), flushed(1, 8, "b", "c"), flushed(1, 9, "b", "c"))
	apply(&Edit{Family: 2, DropFamily: true})
	apply(&Edit{
		Delete: []DeletedFile{{0, 4}, {0, 5}},
		Add:    []AddedFile{{6, withEpoch(file(10, "a", "k"), 1)}, {6, withEpoch(file(11, "l", "m"), 1)}},
	})
	require.NoError(t, vs.Close())
	vs, err = Recover(vfs.OS, dir, Options{})
	require.NoError(t, err)
	check()
	apply(&Edit{Family: 1, Delete: []DeletedFile{{0, 8}}, Add: []AddedFile{{3, vs.Families()[1].Version.Level(0)[1]}}})
	require.NoError(t, vs.Close())
}
