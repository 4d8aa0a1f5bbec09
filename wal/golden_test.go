package wal

import (
	"bytes"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

// goldenLogs lists the logs of a database that RocksDB wrote.
func goldenLogs(t *testing.T, name string) (logs []Log) {
	dir := filepath.Join("../testdata/rocksdb", name, "db")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if kind, num, ok := fname.Parse(e.Name()); ok && kind == fname.Log {
			logs = append(logs, Log{num, filepath.Join(dir, e.Name())})
		}
	}
	return logs
}

// goldenContents is the default family of expected.txt.
func goldenContents(t *testing.T, name string) map[string]string {
	text, err := os.ReadFile(filepath.Join("../testdata/rocksdb", name, "expected.txt"))
	require.NoError(t, err)
	contents := map[string]string{}
	family := "default"
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 0 && f[0] == "#" {
			family = f[2]
		} else if len(f) > 0 && family == "default" {
			key, err := hex.DecodeString(f[0])
			require.NoError(t, err)
			value := ""
			if len(f) > 1 {
				value = string(unhex(t, f[1]))
			}
			contents[string(key)] = value
		}
	}
	return contents
}

// replayGolden applies logs to a map: "" is a deleted key, else "=" and the value.
func replayGolden(t *testing.T, logs []Log, mode Recovery) (map[string]string, Recovered) {
	state := map[string]string{}
	got, err := Recover(vfs.OS, logs, mode, logs[0].Number, 0, func(_ uint64, b []byte) error {
		r := batch.NewReader(b)
		for {
			rec, ok, err := r.Next()
			if err != nil || !ok {
				return err
			}
			if rec.LogData || rec.Family != 0 {
				continue
			}
			switch rec.Kind {
			case kv.KindValue:
				state[string(rec.Key)] = "=" + string(rec.Value)
			case kv.KindDelete, kv.KindSingleDel:
				state[string(rec.Key)] = ""
			case kv.KindMerge:
				delete(state, string(rec.Key)) // what comes out is not the log's matter
			case kv.KindRangeDelete:
				for k := range state {
					if k >= string(rec.Key) && k < string(rec.Value) {
						state[k] = ""
					}
				}
			}
		}
	})
	require.NoError(t, err)
	return state, got
}

func TestLogsOfRocksDBGiveWhatRocksDBReads(t *testing.T) {
	onlyLogs := map[string]int{ // databases without tables, and how many batches they hold
		"78-01-wal-only": 30, "78-02-wal-batch": 1, "78-07-truncated-wal": 29, "78-08-corrupt-wal-middle": 18,
		"78-09-wal-zero-tail": 30, "78-10-wal-fragmented": 2, "78-12-wal-zstd": 40, "119-01-wal-only": 30,
	}
	dirs, err := filepath.Glob("../testdata/rocksdb/*/db")
	require.NoError(t, err)
	read := 0
	for _, dir := range dirs {
		name := filepath.Base(filepath.Dir(dir))
		logs := goldenLogs(t, name)
		if len(logs) == 0 || name == "78-13-wal-2pc" {
			continue
		}
		want := goldenContents(t, name)
		state, got := replayGolden(t, logs, PointInTimeRecovery)
		live := 0
		for k, v := range state {
			value, there := want[k]
			require.Equal(t, v != "", there, "%s: %q", name, k)
			if there {
				live++
				require.True(t, v[1:] == value, "%s: %q", name, k)
			}
		}
		if batches, ok := onlyLogs[name]; ok {
			require.Equal(t, len(want), live, name)
			require.Equal(t, int64(batches), got.Batches, name)
			delete(onlyLogs, name)
		}
		for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
			if got.DamageCount == 0 {
				again, _ := replayGolden(t, logs, mode)
				require.Equal(t, state, again, name)
			}
		}
		read++
	}
	require.Empty(t, onlyLogs)
	require.Greater(t, read, 15)
}

func TestDamageInLogsOfRocksDBIsNamed(t *testing.T) {
	for name, want := range map[string][4]string{
		"78-07-truncated-wal":      {"", "torn tail", "torn tail", "torn tail"},
		"78-08-corrupt-wal-middle": {"", "torn tail", "torn tail", "torn tail"}, // the byte is in a length
		"78-09-wal-zero-tail":      {},
		"119-08-wal-recycled-tail": {"", "", "old record", "old record"},
		"119-06-wal-predecessor":   {},
	} {
		logs := goldenLogs(t, name)
		for i, kind := range want {
			mode := TolerateCorruptedTailRecords + Recovery(i)
			got, err := Recover(vfs.OS, logs, mode, logs[0].Number, 0, func(uint64, []byte) error { return nil })
			if len(got.Damage) > 0 {
				err = got.Damage[0]
			}
			if kind == "" {
				if d, ok := err.(*Damage); ok {
					require.Contains(t, []DamageKind{TornTail, OldRecord}, d.Kind, name)
				} else {
					require.NoError(t, err, "%s %v", name, mode)
				}
				continue
			}
			require.ErrorContains(t, err, kind, "%s %v", name, mode)
		}
	}
}

// The log of 119-06 names log 4, which is obsolete. Were it needed, it would be missed.
func TestRocksDBsPredecessorIsMissedWhenNeeded(t *testing.T) {
	logs := goldenLogs(t, "119-06-wal-predecessor")
	_, err := Recover(vfs.OS, logs, AbsoluteConsistency, 4, 0, func(uint64, []byte) error { return nil })
	require.ErrorContains(t, err, "log 4, which came before, is missing")
}

// The count in a record's header is not what it takes of the sequence numbers: what is prepared takes none, its commit
// does. RocksDB ends at 43, as idump shows.
func TestTwoPhaseCommitsOfRocksDBTakeTheirNumbersAtTheCommit(t *testing.T) {
	logs := goldenLogs(t, "78-13-wal-2pc")
	marks := map[batch.Mark]int{}
	got, err := Recover(vfs.OS, logs, AbsoluteConsistency, 0, 0, func(_ uint64, rec []byte) error {
		for r := batch.NewLogReader(rec); ; {
			op, ok, err := r.Next()
			if err != nil || !ok {
				return err
			}
			marks[op.Mark]++
		}
	})
	require.NoError(t, err)
	require.Zero(t, got.DamageCount)
	require.Equal(t, kv.Seq(43), got.LastSeq)
	require.Positive(t, marks[batch.BeginPrepare])
	require.Equal(t, marks[batch.BeginPrepare], marks[batch.EndPrepare])
	require.Equal(t, marks[batch.BeginPrepare], marks[batch.Commit]+marks[batch.Rollback])
}

// ldb runs RocksDB's tool and returns what it prints, or "" when it is not installed.
func ldb(t *testing.T, args ...string) string {
	tool, err := exec.LookPath("ldb")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("ldb is not installed")
		}
		t.Log("ldb is not installed")
		return ""
	}
	out, err := exec.Command(tool, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestRocksDBReadsOurLogs(t *testing.T) {
	dir := t.TempDir()
	s := NewSet(vfs.OS, dir, Predecessor{Number: 2, Size: 1234, LastSeq: 41})
	require.NoError(t, s.Create(7))
	b := batch.Init(nil)
	b = batch.AppendPut(b, 0, []byte("key1"), []byte("value1"))
	b = batch.AppendDelete(b, 0, []byte("key2"))
	b = batch.AppendSingleDelete(b, 0, []byte("key3"))
	b = batch.AppendDeleteRange(b, 0, []byte("a"), []byte("b"))
	b = batch.AppendMerge(b, 0, []byte("key4"), []byte("operand"))
	b = batch.AppendLogData(b, []byte("blob"))
	batch.SetHeader(b, 42, 5)
	require.NoError(t, s.Append(b[:12], b[12:]))
	b = batch.AppendPut(batch.Init(nil), 3, []byte("family3"), []byte("x"))
	batch.SetHeader(b, 47, 1)
	require.NoError(t, s.Append(b))
	large := bytes.Repeat([]byte("Z"), 100_000)
	b = batch.AppendPut(batch.Init(nil), 0, []byte("large"), large)
	batch.SetHeader(b, 48, 1)
	require.NoError(t, s.Append(b))
	b = batch.AppendPut(batch.Init(nil), 0, []byte("after"), []byte("it"))
	batch.SetHeader(b, 49, 1)
	require.NoError(t, appendSynced(s, b))
	require.NoError(t, s.Close())

	out := ldb(t, "dump_wal", "--walfile="+filepath.Join(dir, "000007.log"), "--header", "--print_value")
	if out == "" {
		return
	}
	hexOf := func(s string) string { return "0x" + strings.ToUpper(hex.EncodeToString([]byte(s))) }
	for _, want := range []string{
		"42,0,46,0,", // the predecessor: an empty batch
		"42,5,", "PUT(0) : " + hexOf("key1") + " : " + hexOf("value1"), "DELETE(0) : " + hexOf("key2"), "SINGLE_DELETE(0) : " + hexOf("key3"),
		"DELETE_RANGE(0) : " + hexOf("a") + " " + hexOf("b"), "MERGE(0) : " + hexOf("key4") + " : " + hexOf("operand"),
		"47,1,", "PUT(3) : " + hexOf("family3"), "48,1,", "PUT(0) : " + hexOf("large") + " : " + hexOf(string(large)), "49,1,", "PUT(0) : " + hexOf("after"),
	} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, strings.ToLower(out), "corrupt")
}

// RocksDB opens a database whose only log is ours, replays past the predecessor's record, and finds what is behind it.
func TestRocksDBReplaysPastThePredecessor(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"CURRENT", "IDENTITY", "MANIFEST-000005"} {
		data, err := os.ReadFile(filepath.Join("../testdata/rocksdb/78-01-wal-only/db", file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), data, 0o644))
	}
	s := NewSet(vfs.OS, dir, Predecessor{})
	require.NoError(t, s.Create(6))
	b := batch.AppendPut(batch.Init(nil), 0, []byte("one"), []byte("1"))
	batch.SetHeader(b, 1, 1)
	require.NoError(t, s.Append(b))
	require.NoError(t, s.Create(7))
	b = batch.AppendPut(batch.Init(nil), 0, []byte("two"), []byte("2"))
	batch.SetHeader(b, 2, 1)
	require.NoError(t, appendSynced(s, b))
	require.NoError(t, s.Close())
	out := ldb(t, "--db="+dir, "scan")
	if out != "" {
		require.Equal(t, "one : 1\ntwo : 2\n", out)
	}
}
