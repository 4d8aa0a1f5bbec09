// Wakebench compares the two ways of waking a write group, on eight of dbbench's benchmarks: one_by_one, where the leader
// wakes every member, and sqrt, where it wakes some √n that wake the rest. RocksDB tells the same eight rows in its pull
// request 12545.
//
//	go build -o dbbench ./cmd/dbbench
//	go run ./cmd/wakebench -dbbench ./dbbench > rows.md
//
// It starts the dbbench binary for each row, number of threads and way, in a directory that is new each time, and prints
// one Markdown table of the medians:
//
//	| benchmark | threads | one_by_one ops/s | sqrt ops/s | sqrt in % | members, sqrt | leader's wakes, one_by_one | … sqrt |
//
// members is the mean size of a group; the leader's wakes are those of a group, on average. Both come from --statistics.
//
// # What keeps it fair
//
//   - The two ways of a cell run one after the other, and which is first changes from round to round. A machine that slows
//     down, or has a neighbour, hurts both. The rounds go through the whole table; so the runs of a median lie far apart.
//   - overwrite, updaterandom and xorupdaterandom start on a database that another process has filled with the keys that
//     they draw; what that costs is not counted. (On an empty one xorupdaterandom writes empty values only.)
//   - Runs end by the clock, after -duration. fillseq does not look at it and gets -writes in all, divided among the
//     threads. With -duration=0 all rows do.
//
// All eight rows with 1, 8, 64 and 256 threads, three rounds, are 192 runs, and take some twelve minutes on a machine that
// does nothing else. What follows -- is given to each dbbench that is measured: -- --write_spread_from=2, say.
//
// The exit code is 1 if a run failed; what it wrote to stderr is shown.
package main
