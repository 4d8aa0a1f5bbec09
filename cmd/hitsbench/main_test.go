package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inProcess does a child's part here.
func inProcess(args []string, result any) error {
	var out bytes.Buffer
	if err := run(args, &out, io.Discard, nil); err != nil {
		return err
	}
	return json.Unmarshal(out.Bytes(), result)
}

func TestFiltersOfTheBottomGoAndOnlyReadsOfAbsentKeysNotice(t *testing.T) {
	dir := t.TempDir()
	var loaded []sizes
	readings := map[bool][]reading{}
	var order []string
	start := func(args []string, result any) error {
		if err := inProcess(args, result); err != nil {
			return err
		}
		order = append(order, args[1]+" "+args[2])
		if r, ok := result.(*reading); ok {
			readings[args[2] == "-hits=true"] = append(readings[args[2] == "-hits=true"], *r)
		} else {
			loaded = append(loaded, *result.(*sizes))
		}
		return nil
	}
	var out strings.Builder
	require.NoError(t, run([]string{"-keys=10000", "-reads=1000", "-rounds=2", "-dir", dir}, &out, io.Discard, start))
	require.Equal(t, []string{
		"load -hits=false", "load -hits=true", "read -hits=false", "read -hits=true", "read -hits=true", "read -hits=false",
	}, order)
	off, on := loaded[0], loaded[1]
	require.Less(t, 5*on.Filter["default"], off.Filter["default"], "but for the tenth above the bottom there is none")
	for _, f := range families[1:] {
		require.Equal(t, off.Filter[f], on.Filter[f], f)
		require.NotZero(t, on.Filter[f], f)
	}
	require.Equal(t, off.Data, on.Data)
	for i, r := range readings[false] {
		require.Less(t, r.RawBlocks, 0.05, "filters answer for absent keys")
		require.Greater(t, readings[true][i].RawBlocks, 0.9, "the block has to be read")
	}
	require.Contains(t, out.String(), "| off | ")
	require.Contains(t, out.String(), "| on | ")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestMedianIsTheMiddleOrBetweenTheTwoThere(t *testing.T) {
	of := func(v ...float64) float64 {
		var all []reading
		for _, x := range v {
			all = append(all, reading{Present: x})
		}
		return median(all, func(r reading) float64 { return r.Present })
	}
	require.Equal(t, 3.0, of(9, 1, 3))
	require.Equal(t, 2.0, of(3, 1, 1, 9))
}

func TestNumbersComeFromTableProperties(t *testing.T) {
	n, err := number("# entries=5; index block size (user-key? 1, delta-value? 1)=33; filter block size=7; ", "index block size")
	require.NoError(t, err)
	require.EqualValues(t, 33, n)
	_, err = number("# entries=5", "filter block size")
	require.ErrorContains(t, err, "'filter block size' is not in the table properties")
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-keys=1":    "want at least ten keys, one read and one round, and no cache of negative size",
		"-part=walk": "-part: 'walk' is neither load nor read",
		"x":          "what is 'x'?",
	} {
		require.EqualError(t, run([]string{args}, io.Discard, io.Discard, nil), want)
	}
}
