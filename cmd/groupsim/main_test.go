package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachModePrintsItsTable(t *testing.T) {
	for args, want := range map[string][]string{
		"-commits=1":                {"MODEL", "yielding threads", "256", "cascade"},
		"-commits=1 -wake=1ms":      {"Wake:1ms"},
		"-commits=1 -insert=7us":    {"Insert:7µs"},
		"-pr -commits=1":            {"MODEL of 160 cores", "randomreplacekeys", "182%"},
		"-check -rounds=1 -log=1us": {"measured / MODEL", "goroutines", "locked threads", "1024", "62 / 62"},
	} {
		var out strings.Builder
		require.NoError(t, run(strings.Fields(args), &out), args)
		for _, w := range want {
			require.Contains(t, out.String(), w, args)
		}
	}
	for _, args := range []string{"-nosuch", "x", "-rounds=0"} {
		require.Error(t, run(strings.Fields(args), &strings.Builder{}), args)
	}
}
