package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReaderSeesTheNewestVersionThatIsNotYoungerThanIt(t *testing.T) {
	d := New()
	f := d.Family("default")
	d.Apply([]Write{{f, Put, "a", "1"}, {f, Put, "b", "2"}, {f, Delete, "a", ""}})
	d.Apply([]Write{{f, Put, "a", "3"}})
	require.EqualValues(t, 4, d.Seq())
	for seq, want := range []string{"", "1", "1", "", "3"} {
		v, ok := f.Get("a", uint64(seq))
		require.Equal(t, want, v)
		require.Equal(t, want != "", ok)
	}
	require.Equal(t, []Entry{{"a", "1"}, {"b", "2"}}, f.Entries(2, nil, nil))
	require.Equal(t, []Entry{{"b", "2"}}, f.Entries(3, nil, nil))
	b := "b"
	require.Equal(t, []Entry{{"a", "3"}}, f.Entries(4, nil, &b))
	require.Equal(t, []Entry{{"b", "2"}}, f.Entries(4, &b, nil))
}

func TestAnIteratorStaysBehindItsEndsAndComesBack(t *testing.T) {
	d := New()
	for _, reverse := range []bool{false, true} {
		f := d.Create("f", reverse)
		d.Apply([]Write{{f, Put, "a", ""}, {f, Put, "b", ""}, {f, Put, "c", ""}})
		i := f.NewIter(d.Seq(), nil, nil)
		at := func() string { e, _ := i.Entry(); return e.Key }
		first, last := "a", "c"
		if reverse {
			first, last = last, first
		}
		require.Empty(t, at())
		i.Prev()
		require.Equal(t, last, at())
		i.Next()
		i.Next()
		require.Empty(t, at())
		i.Prev()
		require.Equal(t, last, at())
		i.Seek("bb")
		i.SeekForPrev("b")
		require.Equal(t, "b", at())
		i.Prev()
		require.Equal(t, first, at())
		i.Prev()
		i.Prev()
		require.Empty(t, at())
		i.Next()
		require.Equal(t, first, at())
	}
}

func TestASingleDeleteNeedsAtMostOnePutSinceTheLastOne(t *testing.T) {
	d := New()
	f := d.Family("default")
	require.True(t, f.MaySingleDelete("a", nil))
	d.Apply([]Write{{f, Put, "a", "1"}})
	require.True(t, f.MaySingleDelete("a", nil))
	require.False(t, f.MaySingleDelete("a", []Write{{f, Put, "a", "2"}}))
	d.Apply([]Write{{f, Put, "a", "2"}})
	require.False(t, f.MaySingleDelete("a", nil))
	require.False(t, f.MaySingleDelete("a", []Write{{f, Delete, "a", ""}}))
	require.True(t, f.MaySingleDelete("a", []Write{{f, SingleDelete, "a", ""}}))
}

func TestARangeDeleteHidesWhatIsOlderFromThoseWhoComeLater(t *testing.T) {
	d := New()
	for _, reverse := range []bool{false, true} {
		f := d.Create("f", reverse)
		from, to := "b", "d"
		if reverse {
			from, to = "c", "a"
		}
		start := d.Seq()
		d.Apply([]Write{{f, Put, "a", "1"}, {f, Put, "b", "2"}, {f, Put, "c", "3"}, {f, Put, "d", "4"}})
		d.Apply([]Write{{f, DeleteRange, from, to}, {f, Put, "c", "5"}})
		require.Equal(t, 4, len(f.Entries(start+4, nil, nil)))
		_, ok := f.Get("b", start+4)
		require.True(t, ok)
		_, ok = f.Get("b", start+5)
		require.False(t, ok)
		_, ok = f.Get("c", start+5)
		require.False(t, ok)
		v, _ := f.Get("c", start+6)
		require.Equal(t, "5", v)
		_, ok = f.Get(to, start+6)
		require.True(t, ok)
	}
}

func TestAMergeGoesBehindWhatThereIs(t *testing.T) {
	d := New()
	f := d.Family("default")
	d.Apply([]Write{{f, Merge, "a", "1"}, {f, Merge, "a", "2"}, {f, Delete, "a", ""}, {f, Merge, "a", ""}, {f, Merge, "a", "3"}})
	d.Apply([]Write{{f, Put, "a", "4"}, {f, Merge, "a", "5"}})
	for seq, want := range []string{"", "1", "1,2", "", "", ",3", "4", "4,5"} {
		v, ok := f.Get("a", uint64(seq))
		require.Equal(t, want, v)
		require.Equal(t, seq != 0 && seq != 3, ok)
	}
	require.False(t, f.MaySingleDelete("a", nil))
	require.False(t, f.MaySingleDelete("a", []Write{{f, SingleDelete, "a", ""}, {f, Merge, "a", ""}}))
}
