package writegroup

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// wakesBy returns who wakes whom in a group of n, by member, in order.
func (w Wake) wakesBy(n int) [][]int {
	by := make([][]int, n)
	stride := w.Stride(n)
	for i := 1; i < stride; i++ {
		by[0] = append(by[0], i)
	}
	for i := range n {
		for j := share(i, n, stride); j < n; j += stride {
			by[i] = append(by[i], j)
		}
	}
	return by
}

func wakesByCascade(n int) [][]int { return WakeSquareRoot.wakesBy(n) }

// wakesOneByOne is the twin: it says who has to be woken, and how often.
func wakesOneByOne(n int) []int {
	times := make([]int, n)
	for i := 1; i < n; i++ {
		times[i]++
	}
	return times
}

func requireCascade(t *testing.T, n int) {
	by := wakesByCascade(n)
	times, awake := make([]int, n), make([]bool, n)
	awake[0] = true
	for i, woken := range by {
		require.True(t, len(woken) == 0 || awake[i], "member %d of %d wakes others and is woken after them", i, n)
		for _, j := range woken {
			times[j]++
			awake[j] = true
		}
	}
	require.Equal(t, wakesOneByOne(n), times, "n = %d", n)
	if n >= cascadeFrom {
		require.LessOrEqual(t, float64(len(by[0])), 2*math.Sqrt(float64(n)), "wakes of the leader of %d", n)
	}
}

func TestEveryMemberIsWokenOnce(t *testing.T) {
	for n := 1; n <= 1100; n++ {
		requireCascade(t, n)
	}
}

func TestLeaderWakesAllOfASmallGroup(t *testing.T) {
	for n := 1; n < cascadeFrom; n++ {
		require.Len(t, wakesByCascade(n)[0], n-1)
	}
}

func TestLeaderWakesAllOneByOne(t *testing.T) {
	for _, n := range []int{1, 2, 20, 100, 1000} {
		by := WakeOneByOne.wakesBy(n)
		require.Len(t, by[0], n-1)
		for i, j := range by[0] {
			require.Equal(t, i+1, j, "in the order of the queue")
		}
		for _, woken := range by[1:] {
			require.Empty(t, woken)
		}
	}
	require.Equal(t, "one_by_one sqrt", fmt.Sprint(WakeOneByOne, " ", WakeSquareRoot))
}

func TestWhoWakesWhom(t *testing.T) {
	by := wakesByCascade(20)
	require.Equal(t, "[[1 2 3 4 8 12 16] [5 9 13 17] [6 10 14 18] [7 11 15 19]]", fmt.Sprint(by[:4]))
	by = wakesByCascade(23)
	require.Equal(t, "[[1 2 3 4 8 12 16 20] [5 9 13 17 21] [6 10 14 18 22] [7 11 15 19]]", fmt.Sprint(by[:4]))
	for _, c := range []struct{ n, stride, leader, helper int }{
		{40, 6, 11, 6}, {64, 8, 14, 7}, {100, 10, 18, 9}, {256, 16, 30, 15}, {512, 22, 44, 23}, {1000, 31, 62, 32},
	} {
		by := wakesByCascade(c.n)
		require.Equal(t, c.stride, WakeSquareRoot.Stride(c.n), "n = %d", c.n)
		require.Len(t, by[0], c.leader, "n = %d", c.n)
		require.Len(t, by[1], c.helper, "n = %d", c.n)
		for _, woken := range by[c.stride:] {
			require.Empty(t, woken)
		}
	}
}

func FuzzCascade(f *testing.F) {
	for _, n := range []uint16{1, 2, 19, 20, 23, 24, 25, 99, 100, 1000, 65535} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n uint16) {
		if n > 0 {
			requireCascade(t, int(n))
		}
	})
}
