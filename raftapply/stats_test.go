package raftapply

import (
	"bufio"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPrometheusSeesEveryCounter: each line is a name, perhaps labels, and a number; every name has its type before it.
func TestPrometheusSeesEveryCounter(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.ApplyYieldWriteSize, c.MaxBatchKeys = 0, 3 })
	f.add(1)
	f.send(1, repeat(10, opAdd, 0, 0)...)
	f.clock = f.clock.Add(time.Second)
	f.run()
	st := f.Stats()
	var text strings.Builder
	require.NoError(t, st.WritePrometheus(&text))
	values, kind := map[string]string{}, ""
	for in := bufio.NewScanner(strings.NewReader(text.String())); in.Scan(); {
		words := strings.Fields(in.Text())
		switch {
		case words[0] == "#" && words[1] == "TYPE":
			kind = words[2]
		case words[0] != "#":
			require.Len(t, words, 2, in.Text())
			require.True(t, strings.HasPrefix(words[0], kind), in.Text())
			values[words[0]] = words[1]
		}
	}
	for name, want := range map[string]string{
		`raftapply_flush_total{reason="keys"}`:  "2",
		`raftapply_flush_total{reason="end"}`:   "1",
		`raftapply_yield_total{reason="bytes"}`: "2",
		"raftapply_applied_total":               "10",
		"raftapply_keys_total":                  "10",
		"raftapply_ack_prefix_total":            "2",
		"raftapply_flush_keys_count":            "3",
		"raftapply_flush_keys_sum":              "13",
		"raftapply_wait_seconds_sum":            "1",
		"raftapply_wait_seconds_count":          "1",
		"raftapply_runqueue_wait_seconds_count": "3",
		"raftapply_turn_seconds_count":          "3",
		"raftapply_regions":                     "1",
		"raftapply_runqueue_len":                "0",
		"raftapply_pending_entries":             "0",
		"raftapply_poisoned_regions":            "0",
	} {
		require.Equal(t, want, values[name], name)
	}
	require.Error(t, st.WritePrometheus(full{}))
}

// full is a writer that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }
