package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/compress"
)

// setting is an option as a word of a play: name=value.
type setting struct {
	name string
	set  func(o *ashlar.Options, value string) error
	// draw returns a value for a random set, "" for the default.
	draw func(rng *rand.Rand) string
}

// fixed settings belong to a database for good: a reopen keeps them.
var fixed = map[string]bool{"levels": true}

func pick(values ...string) func(*rand.Rand) string {
	return func(rng *rand.Rand) string { return values[rng.IntN(len(values))] }
}

func whole[N int | int64 | uint64 | ashlar.MappedWAL](field func(*ashlar.Options) *N) func(*ashlar.Options, string) error {
	return func(o *ashlar.Options, s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		*field(o) = N(n)
		return err
	}
}

func toggle(field func(*ashlar.Options) *bool) func(*ashlar.Options, string) error {
	return func(o *ashlar.Options, s string) (err error) {
		*field(o), err = strconv.ParseBool(s)
		return err
	}
}

func compression(name string) (ashlar.Compression, error) {
	for c := ashlar.NoCompression; c <= compress.ZSTD; c++ {
		if strings.EqualFold(c.String(), name) {
			return c, nil
		}
	}
	return 0, fmt.Errorf("no compression is called %q", name)
}

var settings = []setting{
	{"write-buffer", whole(func(o *ashlar.Options) *uint64 { return &o.WriteBufferSize }), pick("65536", "65536", "200000", "")},
	{"buffers", whole(func(o *ashlar.Options) *int { return &o.MaxWriteBufferNumber }), pick("", "2", "4")},
	{"levels", whole(func(o *ashlar.Options) *int { return &o.NumLevels }), pick("", "2", "3", "4", "5", "7")},
	{"l0", whole(func(o *ashlar.Options) *int { return &o.Level0FileNumCompactionTrigger }), pick("", "1", "2", "3", "8")},
	{"target", whole(func(o *ashlar.Options) *uint64 { return &o.TargetFileSizeBase }), pick("", "1000", "4096", "20000")},
	{"target-multiplier", whole(func(o *ashlar.Options) *int { return &o.TargetFileSizeMultiplier }), pick("", "", "2")},
	{"base", whole(func(o *ashlar.Options) *uint64 { return &o.MaxBytesForLevelBase }), pick("", "4000", "20000", "100000")},
	{"multiplier", func(o *ashlar.Options, s string) (err error) {
		o.MaxBytesForLevelMultiplier, err = strconv.ParseFloat(s, 64)
		return err
	}, pick("", "2", "3.5")},
	{"max-compaction", whole(func(o *ashlar.Options) *uint64 { return &o.MaxCompactionBytes }), pick("", "", "5000", "60000")},
	{"static", toggle(func(o *ashlar.Options) *bool { return &o.NoDynamicLevelBytes }), pick("", "true")},
	{"no-auto", toggle(func(o *ashlar.Options) *bool { return &o.DisableAutoCompactions }), pick("", "", "", "true")},
	{"hits", toggle(func(o *ashlar.Options) *bool { return &o.OptimizeFiltersForHits }), pick("", "true")},
	{"filter", func(o *ashlar.Options, s string) error {
		switch s {
		case "bloom":
			o.Table.FilterPolicy = filter.Bloom(10)
		case "standard":
			o.Table.FilterPolicy = filter.StandardBloom(8)
		case "weak":
			o.Table.FilterPolicy = filter.Bloom(1)
		default:
			return fmt.Errorf("no filter is called %q", s)
		}
		return nil
	}, pick("", "bloom", "standard", "weak")},
	{"format", whole(func(o *ashlar.Options) *int { return &o.Table.FormatVersion }), pick("", "2", "3", "4", "5", "6", "7")},
	{"block", whole(func(o *ashlar.Options) *int { return &o.Table.BlockSize }), pick("", "1", "100", "1000")},
	{"merge", func(o *ashlar.Options, s string) error {
		switch s {
		case "whole":
			o.MergeOperator = wholeOnly{ashlar.StringAppendOperator(",")}
		case "function":
			o.MergeOperator = ashlar.NewAssociativeMergeOperator("a function", func(dst, _, value, operand []byte) ([]byte, error) {
				return append(append(append(dst, value...), ','), operand...), nil
			})
		default:
			return fmt.Errorf("no merge operator is called %q", s)
		}
		return nil
	}, pick("", "", "whole", "function")},
	{"restart", whole(func(o *ashlar.Options) *int { return &o.Table.BlockRestartInterval }), pick("", "1", "2")},
	{"checksum", func(o *ashlar.Options, s string) error {
		for c := ashlar.NoChecksum; c <= ashlar.XXH3; c++ {
			if strings.EqualFold(c.String(), s) {
				o.Table.Checksum = c
				return nil
			}
		}
		return fmt.Errorf("no checksum is called %q", s)
	}, pick("", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3", "kNoChecksum")},
	{"compression", func(o *ashlar.Options, s string) (err error) {
		o.Compression, err = compression(s)
		return err
	}, pick("", "NoCompression", "NoCompression", "Zlib", "LZ4", "ZSTD")},
	{"bottommost", func(o *ashlar.Options, s string) (err error) {
		o.BottommostCompression, err = compression(s)
		return err
	}, pick("", "", "", "ZSTD", "NoCompression")},
	{"cache", func(o *ashlar.Options, s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		o.BlockCache = ashlar.NewCache(n)
		return err
	}, pick("", "0", "5000", "100000")},
	{"open-files", whole(func(o *ashlar.Options) *int { return &o.MaxOpenFiles }), pick("", "", "1", "10")},
	{"jobs", whole(func(o *ashlar.Options) *int { return &o.MaxBackgroundJobs }), pick("", "1", "4", "8")},
	{"leader-inserts", toggle(func(o *ashlar.Options) *bool { return &o.NoConcurrentMemtableWrite }), pick("", "true")},
	{"pipelined", toggle(func(o *ashlar.Options) *bool { return &o.EnablePipelinedWrite }), pick("", "true")},
	{"mapped", whole(func(o *ashlar.Options) *ashlar.MappedWAL { return &o.WALMapped }), pick("", "2")},
	{"max-wal", whole(func(o *ashlar.Options) *uint64 { return &o.MaxTotalWALSize }), pick("", "10000", "200000")},
	{"group", whole(func(o *ashlar.Options) *uint64 { return &o.MaxWriteBatchGroupSize }), pick("", "", "100")},
}

// wholeOnly is an operator without partial merges.
type wholeOnly struct{ ashlar.MergeOperator }

func (wholeOnly) PartialMerge(dst, _ []byte, _ [][]byte) ([]byte, bool) { return dst, false }

// SetOptions sets options by words, name=value. All of them merge alike, by RocksDB's StringAppendOperator or by another
// operator that does the same.
func SetOptions(o *ashlar.Options, words []string) error {
	o.MergeOperator = ashlar.StringAppendOperator(",")
words:
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		for _, s := range settings {
			if s.name == name {
				if err := s.set(o, value); err != nil {
					return fmt.Errorf("%s: %w", w, err)
				}
				continue words
			}
		}
		return fmt.Errorf("no option is called %q", name)
	}
	return nil
}

// RandomOptions draws a set of options. From the words of a database's first set, those stay that it must keep.
func RandomOptions(rng *rand.Rand, first []string) []string {
	var words []string
	for _, s := range settings {
		v := s.draw(rng)
		if fixed[s.name] && first != nil {
			v = ""
			for _, w := range first {
				if name, value, _ := strings.Cut(w, "="); name == s.name {
					v = value
				}
			}
		}
		if v != "" {
			words = append(words, s.name+"="+v)
		}
	}
	return words
}
