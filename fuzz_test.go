package ashlar_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/metamorphic"
	"github.com/ashlardb/ashlar/vfs"
)

// FuzzDBOps takes bytes for operations, does them on the model and on a database, and compares the answers. A failure
// prints the play.
func FuzzDBOps(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		seed := make([]byte, 200)
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 8 || len(data) > 4000 {
			return
		}
		run := metamorphic.RandomRun(uint64(binary.LittleEndian.Uint16(data)), 0)
		ops := opsOf(data[2:])
		twin := metamorphic.NewTwin()
		for _, o := range ops {
			twin.Do(o)
		}
		if twin.Broken {
			return // a SingleDelete too many
		}
		if failure := run.Play(ops); failure != nil {
			t.Fatalf("operation %d: got\n%s\nwant\n%s\n\n%s", failure.At, failure.Got, failure.Want, run.Script(ops))
		}
	})
}

// opsOf makes operations of bytes: what to do, to which of 16 keys, and a little more.
func opsOf(data []byte) (ops []metamorphic.Op) {
	for i := 0; i+2 < len(data); i += 3 {
		key := fmt.Sprintf("k%x", data[i+1]&15)
		other := fmt.Sprintf("k%x", data[i+2]&15)
		family := []string{"default", "a", "b", "default"}[data[i+1]>>4&3]
		small := fmt.Sprint(data[i+2] >> 4 & 3)
		do := func(verb string, words ...string) {
			ops = append(ops, metamorphic.Make(verb, words, nil))
		}
		switch cf := "cf=" + family; data[i] % 32 {
		case 0, 1, 2, 3:
			do("put", key, fmt.Sprintf("v%d~%d", i, int(data[i+2])*3), cf)
		case 4, 5:
			do("delete", key, cf)
		case 6:
			do("single-delete", key, cf)
		case 7:
			do("get", key, cf)
		case 8:
			do("get", key, cf, "snap=s"+small)
		case 9:
			do("snapshot", "s"+small)
		case 10:
			do("release", "s"+small)
		case 11:
			do("flush")
		case 12:
			do("compact", cf)
		case 13:
			do("compact", cf, "begin="+key, "end="+other, "force")
		case 14:
			if family != "default" {
				do("create", family)
			}
		case 15:
			if family != "default" {
				do("drop", family)
			}
		case 16:
			do("scan", cf)
		case 17:
			do("scan-back", cf, "lower="+key)
		case 18:
			do("scan", cf, "upper="+key, "snap=s"+small)
		case 19:
			do("iter", "i"+small, cf, "lower="+key)
		case 20:
			do("iter", "i"+small, cf, "snap=s"+small)
		case 21:
			do("seek", "i"+small, key)
		case 22:
			do("seek-for-prev", "i"+small, key)
		case 23, 24:
			do("next", "i"+small)
		case 25, 26:
			do("prev", "i"+small)
		case 27:
			do("refresh", "i"+small)
		case 28:
			do("put", key, "unlogged", cf, "nowal")
		case 29:
			do("reopen")
		case 30:
			do("multi-get", key, other, cf)
		case 31:
			ops = append(ops, metamorphic.Make("batch", nil, []metamorphic.Op{
				metamorphic.Make("put", []string{key, fmt.Sprint("b", i), cf}, nil),
				metamorphic.Make("delete", []string{other}, nil),
				metamorphic.Make("put", []string{other, fmt.Sprint("c", i)}, nil),
			}))
		}
	}
	return ops
}

// FuzzIterator walks one iterator over keys in every layer, beside the model's.
func FuzzIterator(f *testing.F) {
	f.Add(uint64(1), []byte{0, 1, 2, 3, 4, 5, 200, 201, 202, 77})
	f.Add(uint64(2), []byte("next prev seek and so on"))
	f.Fuzz(func(t *testing.T, seed uint64, moves []byte) {
		if len(moves) > 2000 {
			return
		}
		var ops []metamorphic.Op
		do := func(verb string, words ...string) { ops = append(ops, metamorphic.Make(verb, words, nil)) }
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := range 60 {
			key := fmt.Sprintf("k%02d", rng.IntN(30))
			switch rng.IntN(12) {
			case 0:
				do("flush")
			case 1:
				do("compact")
			case 2, 3, 4:
				do("delete", key)
			case 5:
				do("snapshot", "s")
			default:
				do("put", key, fmt.Sprint("v", i))
			}
		}
		do("iter", "i", "snap=s")
		do("iter", "j", "lower=k05", "upper=k25")
		for _, m := range moves {
			i := []string{"i", "j"}[m>>7]
			key := fmt.Sprintf("k%02d", m>>2&31)
			if m&2 == 0 {
				do([]string{"next", "prev"}[m&1], i)
			} else {
				do([]string{"seek", "seek-for-prev"}[m&1], i, key)
			}
		}
		run := metamorphic.RandomRun(seed, 1)
		if failure := run.Play(ops); failure != nil {
			t.Fatalf("operation %d: got\n%s\nwant\n%s\n\n%s", failure.At, failure.Got, failure.Want, run.Script(ops))
		}
	})
}

// FuzzOptionsFile reads anything as an OPTIONS file. What can be read is written and read again.
func FuzzOptionsFile(f *testing.F) {
	f.Add([]byte("[Version]\n  rocksdb_version=7.8.3\n[DBOptions]\n  max_open_files=-1\n[CFOptions \"default\"]\n  num_levels=7\n" +
		"  compression_per_level=kNoCompression:kZSTD\n  comparator=leveldb.BytewiseComparator\n" +
		"[TableOptions/BlockBasedTable \"default\"]\n  filter_policy=bloomfilter:10:false\n  checksum=kXXH3\n"))
	f.Add([]byte("[CFOptions \"a#b\"]\n# comment\nmax_bytes_for_level_multiplier=1.5"))
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := ashlar.ParseOptions(text)
		if err != nil {
			return
		}
		again, err := ashlar.ParseOptions(ashlar.EncodeOptions(once))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := ashlar.EncodeOptions(once), ashlar.EncodeOptions(again); string(a) != string(b) {
			t.Fatalf("%s\nread again is\n%s", a, b)
		}
		o := *once
		o.FS, o.ColumnFamilies = vfs.NewMem(), nil
		if o.WriteBufferSize > 1<<24 {
			return // not for want of memory
		}
		db, err := ashlar.Open("db", &o)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Put([]byte("k"), []byte("v"), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
