package ashlar_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/filter"
)

// BenchmarkMultiGet100 reads 100 keys of 400,000 by one MultiGet and by as many Gets: from the block cache, and from files
// that are far larger than it; keys drawn from everywhere, and from a range of 5,000. An op is 100 keys.
func BenchmarkMultiGet100(b *testing.B) {
	const all, batch = 400_000, 100
	for _, cache := range []struct {
		name  string
		bytes int64
	}{{"cached", 256 << 20}, {"uncached", 1 << 20}} {
		o := &ashlar.Options{BlockCache: ashlar.NewCache(cache.bytes)}
		o.WriteBufferSize = 8 << 20
		o.Table.FilterPolicy = filter.Bloom(10)
		db, err := ashlar.Open(b.TempDir(), o)
		if err != nil {
			b.Fatal(err)
		}
		key := func(dst []byte, n int) []byte {
			return append(binary.BigEndian.AppendUint64(dst[:0], uint64(n)), "00000000"...)
		}
		rng := rand.NewChaCha8([32]byte{})
		value := make([]byte, 100)
		for _, n := range rand.New(rng).Perm(all) {
			rng.Read(value[:50])
			if err := db.Put(key(nil, n), value, nil); err != nil {
				b.Fatal(err)
			}
		}
		if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
			b.Fatal(err)
		}
		keys, values, errs := make([][]byte, batch), make([][]byte, batch), make([]error, batch)
		for _, span := range []int{all, 5000} {
			draw := func(r *rand.Rand) {
				from := r.IntN(all - span + 1)
				for i := range keys {
					keys[i] = key(keys[i], from+r.IntN(span))
				}
			}
			check := func() {
				if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
					b.Fatal(errs[i])
				}
			}
			for _, way := range []struct {
				name string
				read func()
			}{
				{"MultiGet", func() { db.MultiGetTo(values, keys, errs, nil) }},
				{"Gets", func() {
					for i, k := range keys {
						values[i], errs[i] = db.AppendGet(values[i][:0], k, nil)
					}
				}},
			} {
				b.Run(fmt.Sprintf("%s/span=%d/%s", cache.name, span, way.name), func(b *testing.B) {
					r := rand.New(rand.NewPCG(1, 1))
					b.ReportAllocs()
					for b.Loop() {
						draw(r)
						way.read()
					}
					check()
				})
			}
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
