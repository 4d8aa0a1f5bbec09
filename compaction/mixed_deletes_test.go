package compaction

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
)

// A key may be deleted now with Delete and now with SingleDelete, as long as it was put at most once since (RocksDB calls
// that undefined; facebook/rocksdb#9888).
func TestADeleteOutlivesAPairAboveIt(t *testing.T) {
	for _, tc := range []struct {
		in, want  string
		snapshots []kv.Seq
		bottom    bool
	}{
		{in: "a:9~ a:7 a:5-", want: "a:5-"},
		{in: "a:9~ a:7 a:5- a:3", want: "a:5-"},
		{in: "a:9~ a:7 a:5- a:3- a:1", want: "a:5-"},
		{in: "a:9 a:8~ a:7 a:5-", want: "a:9"},
		{in: "a:9~ a:7 a:6~ a:4 a:2-", want: "a:2-"},
		{in: "a:9~ a:7 a:5- a:3", snapshots: []kv.Seq{3}, want: "a:5- a:3"},
		{in: "a:9~ a:7 a:5- a:3", snapshots: []kv.Seq{3}, bottom: true, want: "a:5- a:0"},
		{in: "a:9~ a:7 a:5- a:3", bottom: true, want: ""},
		{in: "a:9~ a:7 a:5 a:4", want: ""}, // put twice: the contract is broken, and nothing comes back as far as it goes
	} {
		var b *below
		if tc.bottom {
			b = newBelow(nil)
		}
		out, err := survive(versions(tc.in), tc.snapshots, tc.bottom, b)
		require.NoError(t, err)
		require.Equal(t, tc.want, text(out), "%s, snapshots %v", tc.in, tc.snapshots)
	}
}
