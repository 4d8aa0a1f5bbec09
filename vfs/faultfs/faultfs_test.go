package faultfs

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
)

func wrap(t *testing.T, rules string) (*FS, *vfs.Mem) {
	t.Helper()
	m := vfs.NewMem()
	f := Wrap(m)
	require.NoError(t, f.Add(rules))
	return f, m
}

func create(t *testing.T, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	return f
}

func content(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	require.NoError(t, err)
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	require.NoError(t, err)
	return string(b)
}

func TestARuleFailsAfterNAndForSoManyTimes(t *testing.T) {
	for rule, want := range map[string][]bool{
		"fail write *.sst":                       {false, false, false, false, false},
		"fail write *.sst after 3":               {true, true, true, false, false},
		"fail write *.sst once":                  {false, true, true, true, true},
		"fail write *.sst after 1 times 2":       {true, false, false, true, true},
		"fail write *.sst times 2 after 1":       {true, false, false, true, true},
		"fail any /1.sst after 1 times 1":        {false, true, true, true, true}, // the create counts
		"fail write *.log":                       {true, true, true, true, true},
		"fail sync *":                            {true, true, true, true, true},
		"fail write *.sst once\nfail write 1.* ": {false, false, false, false, false},
	} {
		f, _ := wrap(t, rule)
		w := create(t, f, "/1.sst")
		var got []bool
		for range want {
			_, err := w.Write([]byte("x"))
			got = append(got, err == nil)
		}
		require.Equal(t, want, got, rule)
	}
}

func TestAnInjectedErrorIsAPathErrorWithItsErrno(t *testing.T) {
	f, m := wrap(t, `
		# two rules
		fail create MANIFEST-* with ENOSPC

		fail open *`)
	_, err := f.Create("MANIFEST-000001")
	require.ErrorIs(t, err, syscall.ENOSPC)
	var pe *fs.PathError
	require.ErrorAs(t, err, &pe)
	require.Equal(t, "create MANIFEST-000001: "+syscall.ENOSPC.Error(), err.Error())
	_, err = f.Open("x")
	require.ErrorIs(t, err, syscall.EIO)
	names, err := m.List("/")
	require.NoError(t, err)
	require.Empty(t, names, "the call was not passed on")
}

func TestEveryOperationCanFail(t *testing.T) {
	calls := map[Op]func(f vfs.FS, w vfs.File) error{
		Create:   func(f vfs.FS, _ vfs.File) error { _, err := f.Create("b"); return err },
		Open:     func(f vfs.FS, _ vfs.File) error { _, err := f.Open("a"); return err },
		Remove:   func(f vfs.FS, _ vfs.File) error { return f.Remove("a") },
		Rename:   func(f vfs.FS, _ vfs.File) error { return f.Rename("a", "b") },
		Link:     func(f vfs.FS, _ vfs.File) error { return f.Link("a", "b") },
		Mkdir:    func(f vfs.FS, _ vfs.File) error { return f.MkdirAll("b") },
		List:     func(f vfs.FS, _ vfs.File) error { _, err := f.List("/"); return err },
		Stat:     func(f vfs.FS, _ vfs.File) error { _, err := f.Stat("a"); return err },
		SyncDir:  func(f vfs.FS, _ vfs.File) error { return f.SyncDir("/") },
		Lock:     func(f vfs.FS, _ vfs.File) error { _, err := f.Lock("a"); return err },
		Read:     func(_ vfs.FS, w vfs.File) error { _, err := w.ReadAt(make([]byte, 1), 0); return err },
		Write:    func(_ vfs.FS, w vfs.File) error { _, err := w.Write([]byte("x")); return err },
		Sync:     func(_ vfs.FS, w vfs.File) error { return w.Sync() },
		Truncate: func(_ vfs.FS, w vfs.File) error { return w.Truncate(0) },
		Map:      func(_ vfs.FS, w vfs.File) error { _, err := w.(vfs.Mapper).Map(0, 4096); return err },
		Store: func(_ vfs.FS, w vfs.File) error {
			m, err := w.(vfs.Mapper).Map(0, 4096)
			require.NoError(t, err)
			return m.Store(0, []byte("12345678"))
		},
		Close: func(_ vfs.FS, w vfs.File) error { return w.Close() },
	}
	require.Len(t, calls, len(ops)-1)
	for op, call := range calls {
		for _, late := range []string{"", " late"} {
			f, _ := wrap(t, "")
			w := create(t, f, "a")
			_, err := w.Write([]byte("x"))
			require.NoError(t, err)
			require.NoError(t, f.Add(fmt.Sprintf("fail %s * once%s", op, late)))
			require.ErrorIs(t, call(f, w), syscall.EIO, op)
			require.True(t, f.Fired())
			if late == "" && op != Close {
				require.NoError(t, call(f, w), op)
			}
		}
	}
	f, _ := wrap(t, "fail close a")
	w := create(t, f, "a")
	require.ErrorIs(t, w.Close(), syscall.EIO)
	_, err := w.Write([]byte("x"))
	require.ErrorIs(t, err, fs.ErrClosed, "a failed Close closes")
}

func TestARenameMatchesByEitherName(t *testing.T) {
	f, m := wrap(t, "fail rename CURRENT once\nfail rename db/*.temp once")
	require.NoError(t, m.MkdirAll("db"))
	create(t, f, "db/1.temp")
	require.Error(t, f.Rename("db/1.temp", "db/CURRENT"))
	require.NoError(t, f.Rename("db/1.temp", "db/CURRENT"), "both rules saw the first call")
}

func TestAPartialWriteLeavesHalfAndSaysNothing(t *testing.T) {
	f, m := wrap(t, "fail write a once partial")
	w := create(t, f, "a")
	n, err := w.Write([]byte("12345678"))
	require.Zero(t, n)
	require.ErrorIs(t, err, syscall.EIO)
	_, err = w.Write([]byte("!"))
	require.NoError(t, err)
	require.Equal(t, "1234!", content(t, m, "a"))
}

func TestALateFailureIsDoneAndYetFails(t *testing.T) {
	f, m := wrap(t, "fail sync a late\nfail write a late\nfail lock LOCK once late\nfail create b late")
	w := create(t, f, "a")
	n, err := w.Write([]byte("12"))
	require.Zero(t, n)
	require.Error(t, err)
	require.Error(t, w.Sync())
	require.NoError(t, f.SyncDir("/"))
	require.Equal(t, "12", content(t, m.Crash(nil), "a"))
	_, err = f.Lock("LOCK")
	require.Error(t, err)
	_, err = f.Lock("LOCK")
	require.NoError(t, err, "a lock that nobody got is not held")
	_, err = f.Create("b")
	require.Error(t, err)
	require.Equal(t, "", content(t, m, "b"))
}

func TestFailNthGoesThroughAllCallsOfARun(t *testing.T) {
	run := func(f vfs.FS) error {
		w, err := f.Create("a")
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte("x")); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		return f.SyncDir("/")
	}
	f, _ := wrap(t, "")
	for n := int64(1); ; n++ {
		f.FailNth(n)
		err := run(f)
		require.Equal(t, f.Fired(), err != nil)
		if !f.Fired() {
			require.Equal(t, int64(5), n)
			require.Equal(t, int64(4), f.Calls())
			break
		}
		require.Equal(t, n, f.Calls())
	}
	f.FailFrom(2)
	require.Error(t, run(f))
	require.Error(t, run(f))
	f.Clear()
	require.NoError(t, run(f))
	f.FailNth(0)
	require.NoError(t, run(f))
	require.Equal(t, int64(4), f.Calls())
	require.False(t, f.Fired())
}

func TestADiskFillsUpAndIsFreed(t *testing.T) {
	f, m := wrap(t, "")
	w := create(t, f, "a")
	f.LimitSpace(5)
	_, err := w.Write([]byte("123"))
	require.NoError(t, err)
	n, err := w.Write([]byte("4567"))
	require.Zero(t, n)
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = w.Write([]byte("8"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	f.Free()
	_, err = w.Write([]byte("9"))
	require.NoError(t, err)
	require.Equal(t, "123459", content(t, m, "a"))
}

func TestTheJournalTellsWhatChangedInOrder(t *testing.T) {
	run := func(d Detail) string {
		f, m := wrap(t, "fail syncdir db once")
		require.NoError(t, m.MkdirAll("db"))
		f.Record(d)
		w := create(t, f, "db/1.temp")
		for range 2 {
			_, err := w.Write([]byte("abc"))
			require.NoError(t, err)
		}
		require.NoError(t, w.Sync())
		_, err := w.Write(nil)
		require.NoError(t, err)
		require.NoError(t, w.Truncate(4))
		require.Equal(t, "abca", content(t, f, "db/1.temp"))
		require.NoError(t, w.Close())
		require.NoError(t, f.Rename("db/1.temp", "db/CURRENT"))
		require.Error(t, f.SyncDir("db"))
		require.NoError(t, f.SyncDir("db"))
		require.NoError(t, f.Remove("db/CURRENT"))
		journal := f.Journal()
		require.Empty(t, f.Journal())
		return journal
	}
	rest := "truncate db/1.temp 4\nrename db/1.temp db/CURRENT\nsyncdir db: " + syscall.EIO.Error() +
		"\nsyncdir db\nremove db/CURRENT\n"
	require.Equal(t, "create db/1.temp\nwrite db/1.temp\nsync db/1.temp\nwrite db/1.temp\n"+rest, run(Names))
	require.Equal(t, "create db/1.temp\nwrite db/1.temp 3\nwrite db/1.temp 3\nsync db/1.temp\nwrite db/1.temp 0\n"+rest, run(Sizes))
	require.Empty(t, run(Off))
}

func TestOnCallMayHoldACallBack(t *testing.T) {
	f, _ := wrap(t, "")
	reached, goOn := make(chan Call), make(chan bool)
	f.OnCall = func(c Call) {
		if c.Op == Sync {
			reached <- c
			<-goOn
		}
	}
	w := create(t, f, "a")
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = w.Sync() })
	require.Equal(t, Call{Op: Sync, Name: "a"}, <-reached)
	require.NoError(t, f.MkdirAll("others go on"))
	require.NoError(t, f.Add("fail sync *"))
	close(goOn)
	wg.Wait()
	require.ErrorIs(t, err, syscall.EIO, "the call is judged after OnCall")
}

func TestBadRulesAreRefused(t *testing.T) {
	for _, line := range []string{
		"fail", "fail write", "pass write *", "fail scribble *", "fail write [", "fail write * after", "fail write * after x",
		"fail write * after -1", "fail write * times 0", "fail write * with EWHAT", "fail sync * partial", "fail write * often",
		"fail write * often 3",
	} {
		_, err := Parse(line)
		require.ErrorContains(t, err, line)
		f := Wrap(vfs.NewMem())
		require.Error(t, f.Add("fail write *\n"+line))
		require.Empty(t, f.rules)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("fail write *.sst after 3 times 2 with ENOSPC partial")
	f.Add("fail any [a-z]*/x once late")
	f.Fuzz(func(t *testing.T, line string) {
		r, err := Parse(line)
		if err != nil {
			return
		}
		require.True(t, slices.Contains(ops, r.Op))
		require.GreaterOrEqual(t, r.After, 0)
		require.GreaterOrEqual(t, r.Times, 0)
		r.fires(Call{Op: Write, Name: "db/000001.log"})
	})
}

func Example() {
	fsys := Wrap(vfs.NewMem())
	fsys.Add("fail sync *.log once")
	fsys.Record(Names)
	log, _ := fsys.Create("000001.log")
	log.Write([]byte("a record"))
	fmt.Println(log.Sync())
	fmt.Println(log.Sync())
	fmt.Print(fsys.Journal())
	// Output:
	// sync 000001.log: input/output error
	// <nil>
	// create 000001.log
	// write 000001.log
	// sync 000001.log: input/output error
	// sync 000001.log
}
