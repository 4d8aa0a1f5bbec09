package filter

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// benchKeys is how many keys a big filter has: 1.25 MB at 10 bits, about that of a table of 64 MiB.
const benchKeys = 1 << 20

func benchReader(b *testing.B, p Policy, n uint64) Reader {
	builder := p.NewBuilder(int(n))
	var key [16]byte
	for i := range n {
		binary.BigEndian.PutUint64(key[8:], i)
		builder.Add(key[:])
	}
	r, err := p.Open(builder.Finish(nil))
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkMayContain asks for keys of 16 bytes, in a filter that fits the first cache and in one that does not.
func BenchmarkMayContain(b *testing.B) {
	for _, p := range []Policy{Bloom(10), StandardBloom(10), Ribbon(10)} {
		for _, n := range []uint64{4096, benchKeys} {
			r := benchReader(b, p, n)
			for what, from := range map[string]uint64{"present": 0, "absent": n} {
				b.Run(fmt.Sprintf("%T/%d/%s", r, n, what), func(b *testing.B) {
					var key [16]byte
					yes, i := 0, uint64(0)
					for b.Loop() {
						i++
						binary.BigEndian.PutUint64(key[8:], from+i*0x9E3779B9%n)
						if r.MayContain(key[:]) {
							yes++
						}
					}
					b.ReportMetric(float64(yes)/float64(b.N), "yes/op")
				})
			}
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for name, p := range map[string]Policy{"Bloom": Bloom(10), "StandardBloom": StandardBloom(10), "Ribbon": Ribbon(10)} {
		b.Run(name, func(b *testing.B) {
			size := 0
			builder := p.NewBuilder(benchKeys)
			var key [16]byte
			var out []byte
			n := uint64(0)
			for b.Loop() {
				binary.BigEndian.PutUint64(key[8:], n)
				builder.Add(key[:])
				if n++; n%benchKeys == 0 {
					out = builder.Finish(out[:0])
					size = len(out)
				}
			}
			b.ReportMetric(8*float64(size)/benchKeys, "bits/key")
		})
	}
}

// BenchmarkProbe asks a block as partitions are asked, without a Reader.
func BenchmarkProbe(b *testing.B) {
	for name, p := range map[string]Policy{"Bloom": Bloom(10), "StandardBloom": StandardBloom(10), "Ribbon": Ribbon(10)} {
		b.Run(name, func(b *testing.B) {
			const n = 3276 // what 4096 bytes of Bloom hold
			builder := p.NewBuilder(n)
			var key [16]byte
			for i := range uint64(n) {
				binary.BigEndian.PutUint64(key[8:], i)
				builder.Add(key[:])
			}
			block := builder.Finish(nil)
			i := uint64(0)
			for b.Loop() {
				i++
				binary.BigEndian.PutUint64(key[8:], n+i)
				if _, err := p.(Prober).MayContain(block, key[:]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
