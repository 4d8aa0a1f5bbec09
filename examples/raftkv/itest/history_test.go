package itest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// input is what a client asked of one key. Old and value are "" for no such key.
type input struct {
	op, key, old, value string
}

// output is what it was told. Of an unknown one nothing is known, also not whether it took effect.
type output struct {
	value   string // of a get
	swapped bool   // of a cas
	unknown bool
}

// kvModel is one key: its value, "" if there is none.
var kvModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[string]int{}
		for _, op := range history {
			key := op.Input.(input).key
			i, ok := at[key]
			if !ok {
				i = len(parts)
				at[key] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		i, o := in.(input), out.(output)
		switch i.op {
		case "get":
			return o.unknown || o.value == state, state
		case "put":
			return true, i.value
		case "delete":
			return true, ""
		case "cas":
			same := i.old == state
			if same {
				state = i.value
			}
			return o.unknown || o.swapped == same, state
		}
		return false, state
	},
	DescribeOperation: func(in, out any) string {
		i, o := in.(input), out.(output)
		said := ""
		switch {
		case o.unknown:
			said = " -> ?"
		case i.op == "get":
			said = " -> " + o.value
		case i.op == "cas":
			said = fmt.Sprint(" -> ", o.swapped)
		}
		return fmt.Sprintf("%s %s %s %s%s", i.op, i.key, i.old, i.value, said)
	},
}

// history is what clients asked and were told.
type history struct {
	began   time.Time
	mu      sync.Mutex
	ops     []porcupine.Operation
	unknown int
}

func newHistory() *history { return &history{began: time.Now()} }

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// add notes an operation that was called at a time and is told now.
func (h *history) add(client int, call int64, in input, out output) {
	op := porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: h.now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if out.unknown {
		op.Return = math.MaxInt64 // it may take effect at any time from its call on
		h.unknown++
	}
	h.ops = append(h.ops, op)
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// check requires that the history is linearizable, and known to be.
func (h *history) check(t *testing.T) {
	result, info := porcupine.CheckOperationsVerbose(kvModel, h.ops, time.Minute)
	if result == porcupine.Ok {
		return
	}
	picture := filepath.Join(os.TempDir(), fmt.Sprintf("raftkv-history-%d.html", time.Now().UnixNano()))
	require.NoError(t, porcupine.VisualizePath(kvModel, info, picture))
	require.Equal(t, porcupine.Ok, result, "the history of %d operations (%d unknown) is in %s; Unknown is inconclusive, and fails too",
		len(h.ops), h.unknown, picture)
}

func TestHistoriesThatNoSingleCopyGivesAreFound(t *testing.T) {
	put := func(v string, at, until int64) porcupine.Operation {
		return porcupine.Operation{Input: input{op: "put", key: "a", value: v}, Output: output{}, Call: at, Return: until}
	}
	get := func(v string, at, until int64) porcupine.Operation {
		return porcupine.Operation{Input: input{op: "get", key: "a"}, Output: output{value: v}, Call: at, Return: until}
	}
	cas := func(old, v string, swapped bool, at, until int64) porcupine.Operation {
		return porcupine.Operation{Input: input{"cas", "a", old, v}, Output: output{swapped: swapped}, Call: at, Return: until}
	}
	lost := put("2", 2, math.MaxInt64)
	lost.Output = output{unknown: true}
	for name, c := range map[string]struct {
		ops  []porcupine.Operation
		want porcupine.CheckResult
	}{
		"one after the other":          {[]porcupine.Operation{put("1", 0, 1), get("1", 2, 3)}, porcupine.Ok},
		"a stale read":                 {[]porcupine.Operation{put("1", 0, 1), put("2", 2, 3), get("1", 4, 5)}, porcupine.Illegal},
		"a lost write":                 {[]porcupine.Operation{put("1", 0, 1), get("", 2, 3)}, porcupine.Illegal},
		"a value from nowhere":         {[]porcupine.Operation{put("1", 0, 1), get("9", 2, 3)}, porcupine.Illegal},
		"reads that go back":           {[]porcupine.Operation{put("1", 0, 9), get("1", 1, 2), get("", 3, 4)}, porcupine.Illegal},
		"two that swapped the same":    {[]porcupine.Operation{cas("", "1", true, 0, 1), cas("", "2", true, 2, 3)}, porcupine.Illegal},
		"one of two that overlap":      {[]porcupine.Operation{cas("", "1", true, 0, 3), cas("", "2", false, 1, 4)}, porcupine.Ok},
		"unknown, and it took effect":  {[]porcupine.Operation{put("1", 0, 1), lost, get("2", 4, 5)}, porcupine.Ok},
		"unknown, and it did not":      {[]porcupine.Operation{put("1", 0, 1), lost, get("1", 4, 5)}, porcupine.Ok},
		"unknown, and it did and not ": {[]porcupine.Operation{put("1", 0, 1), lost, get("2", 4, 5), get("1", 6, 7)}, porcupine.Illegal},
	} {
		require.Equal(t, c.want, porcupine.CheckOperationsTimeout(kvModel, c.ops, time.Minute), name)
	}
}
