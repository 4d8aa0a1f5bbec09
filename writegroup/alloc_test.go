//go:build !race

package writegroup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Not with the race detector, under which pools drop what they are given.
func TestWriterAloneAllocatesNothing(t *testing.T) {
	q := New[int](idle{})
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = q.Commit(1) }))
	s := q.Stats()
	require.EqualValues(t, 1001, s.Groups)
	require.Zero(t, s.Parks+s.Yields)
}
