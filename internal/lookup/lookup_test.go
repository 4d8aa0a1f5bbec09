package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
)

func TestFirstVisibleVersionDecides(t *testing.T) {
	for _, c := range []struct {
		name  string
		seq   kv.Seq
		state State
		value string
	}{
		{"before all", 1, Pending, ""},
		{"at the put", 2, Found, "old"},
		{"at the delete", 5, Deleted, ""},
		{"at the newest", 9, Found, "new"},
		{"at the merge", 10, Unsupported, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Get{User: []byte("k"), Seq: c.seq}
			more := true
			for _, v := range []struct {
				seq  kv.Seq
				kind kv.Kind
				val  string
			}{{10, kv.KindMerge, "+1"}, {8, kv.KindValue, "new"}, {4, kv.KindSingleDel, ""}, {2, kv.KindValue, "old"}} {
				if more {
					more = g.Offer(kv.MakeTrailer(v.seq, v.kind), []byte(v.val))
				}
			}
			require.Equal(t, c.state, g.State)
			require.Equal(t, c.value, string(g.Value))
			require.Equal(t, c.state == Pending, more)
		})
	}
}
