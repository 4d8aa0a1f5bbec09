package groupsim

import "time"

// Benchmark is a row of the table in RocksDB's pull request 12545.
type Benchmark struct {
	Name    string
	Percent int // what the pull request measured: throughput of the √n launch, of that of waking one by one
	Work    Work
}

// PR12545 is that table, measured with as many threads as processors, 160 of them. The works are guesses, from what each
// benchmark does beside an insert: how long a Get takes, or a sync of a fast disk. They are the same for both ways.
var PR12545 = []Benchmark{
	{"fillrandom", 182, Typical},
	{"fillseq", 184, Typical.with(0, 0, -time.Microsecond)},
	{"fillsync", 136, Typical.with(0, 500*time.Microsecond, 0)},
	{"overwrite", 179, Typical.with(0, 0, time.Microsecond)},
	{"randomreplacekeys", 180, Typical},
	{"randomtransaction", 161, Typical.with(8*time.Microsecond, 0, 2*time.Microsecond)},
	{"updaterandom", 163, Typical.with(4*time.Microsecond, 0, time.Microsecond)},
	{"xorupdaterandom", 165, Typical.with(4*time.Microsecond, 0, time.Microsecond)},
}

// with returns w with more of these.
func (w Work) with(think, log, insert time.Duration) Work {
	w.Think += think
	w.Log += log
	w.Insert += insert
	return w
}
