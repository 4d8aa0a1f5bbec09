package wal

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

// A database reduced to its logs lives through many crashes of the machine and of the process. After each one it finds
// a prefix of what was written, with all that was synced, and nothing that an earlier crash took away comes back: every
// write carries a number of its own, while sequence numbers are used again.
func TestCrashesLeaveAPrefixWithAllThatWasSynced(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs := vfs.NewMem()
		require.NoError(t, fs.MkdirAll("db"))
		require.NoError(t, fs.SyncDir("."))

		var (
			history  []uint64 // history[i] is the write at sequence number i+1
			safe     int      // how many of them were synced or are in tables
			flushed  int      // how many are in tables
			need     uint64   // the first log that is needed, as a manifest would say
			number   = uint64(1)
			write    uint64
			crashing = true // the first round starts from nothing
		)
		for range 12 {
			var logs []Log
			names, err := fs.List("db")
			require.NoError(t, err)
			slices.Sort(names)
			for _, name := range names {
				if _, n, ok := fname.Parse(name); ok && n >= need {
					logs = append(logs, Log{n, fs.Join("db", name)})
				}
			}
			found := slices.Clone(history[:flushed])
			got, err := Recover(fs, logs, PointInTimeRecovery, need, kv.Seq(flushed), func(_ uint64, b []byte) error {
				r := batch.NewReader(b)
				seq := batch.Seq(b)
				for {
					rec, ok, err := r.Next()
					if err != nil || !ok {
						return err
					}
					if int(seq) > flushed {
						require.Equal(t, len(found)+1, int(seq), "seed %d", seed)
						found = append(found, binary.LittleEndian.Uint64(rec.Key))
					}
					seq++
				}
			})
			require.NoError(t, err, "seed %d", seed)
			require.Equal(t, history[:len(found)], found, "seed %d", seed)
			require.GreaterOrEqual(t, len(found), safe, "seed %d: a synced write is lost", seed)
			if !crashing {
				require.Len(t, found, len(history), "seed %d: the process died, the machine did not", seed)
			}
			history = found
			require.Equal(t, kv.Seq(len(history)), got.LastSeq)

			// What was found goes to tables, a new log is made, and a manifest says so: the process may die in between.
			s := NewSet(fs, "db", got.Last)
			s.Window = []int64{0, 1, 200_000}[rng.IntN(3)]
			number += 3
			require.NoError(t, s.Create(number))
			deeds := 0
			if rng.IntN(4) > 0 {
				flushed, safe, need = len(history), len(history), number
				for _, l := range logs {
					require.NoError(t, fs.Remove(l.Path))
				}
				deeds = rng.IntN(30)
			}
			for range deeds {
				switch x := rng.IntN(20); {
				case x == 0:
					number++
					require.NoError(t, s.Create(number))
				case x == 1:
					require.NoError(t, s.Sync())
					safe = len(history)
				case x == 2:
					require.NoError(t, s.SyncClosed())
				case x == 3 && rng.IntN(3) == 0: // everything goes to tables
					number++
					require.NoError(t, s.Create(number))
					flushed, safe, need = len(history), len(history), number
					for _, n := range s.DropBelow(need) {
						require.NoError(t, fs.Remove(fs.Join("db", fname.Make(fname.Log, n))))
					}
				default:
					b := batch.Init(nil)
					n := 1 + rng.IntN(3)
					for range n {
						write++
						b = batch.AppendPut(b, 0, binary.LittleEndian.AppendUint64(nil, write), make([]byte, rng.IntN(1<<rng.IntN(16))))
						history = append(history, write)
					}
					batch.SetHeader(b, kv.Seq(len(history)-n+1), uint32(n))
					sync := rng.IntN(8) == 0
					require.NoError(t, s.Append(b))
					if sync {
						require.NoError(t, s.Sync())
						safe = len(history)
					}
				}
			}
			if crashing = rng.IntN(4) > 0; crashing {
				fs = fs.Crash(rng)
			} else {
				fs = fs.Clone()
			}
			require.NoError(t, s.Close())
		}
	}
}
