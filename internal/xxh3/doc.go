// Package xxh3 has the two key hashes that RocksDB's files depend on and that no library offers.
//
//   - Hash64Preview is XXPH3: XXH3 as it stood in xxHash 0.7.2, before its final form, with seed 0. RocksDB froze it
//     for its filters (FastLocalBloom since 6.6, Ribbon since 6.15). It differs from the final XXH3, which block checksums and
//     unique ids use and which comes from github.com/zeebo/xxh3. Mixing the two makes a filter that says "no" for keys that
//     are there.
//   - Hash32 is the small multiplicative hash that LevelDB had from the start: the legacy Bloom filter (format_version
//     below 5) and the hash index inside data blocks use it, each with its own seed.
//
// The hashes are pure functions of their input: any number of goroutines may call them. Neither allocates. The vectors
// in testdata were made by RocksDB's own headers and cover every length from 0 to 300 and some longer ones.
package xxh3
