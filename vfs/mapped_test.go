package vfs

import (
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsStoredIsInTheFile(t *testing.T) {
	for name, fs := range map[string]FS{"mem": NewMem(), "os": OS} {
		t.Run(name, func(t *testing.T) {
			dir := "/"
			if fs == OS {
				dir = t.TempDir()
			}
			f, err := fs.Create(fs.Join(dir, "a"))
			require.NoError(t, err)
			mapper, ok := f.(Mapper)
			if !ok {
				t.Logf("nothing is checked: files cannot be mapped here")
				return
			}
			_, err = f.Write([]byte("first "))
			require.NoError(t, err)
			m, err := mapper.Map(0, 2*page)
			require.NoError(t, err)
			require.NoError(t, m.Store(6, []byte("second, ")))
			require.NoError(t, m.Store(2*page-10, []byte("at the end")))
			require.NoError(t, m.Populate(page, page))
			second, err := mapper.Map(2*page, page)
			require.NoError(t, err)
			require.NoError(t, second.Store(2*page, []byte("of two parts")))
			got, err := ReadFile(fs, fs.Join(dir, "a"))
			require.NoError(t, err)
			require.Len(t, got, 3*page)
			require.Equal(t, "first second, ", strings.TrimRight(string(got[:page]), "\x00"))
			require.Equal(t, "at the endof two parts", strings.Trim(string(got[page:]), "\x00"))
			require.NoError(t, f.Sync())
			require.NoError(t, m.Close())
			require.NoError(t, second.Close())
			require.NoError(t, f.Truncate(14))
			_, err = f.Write([]byte("third"))
			require.NoError(t, err)
			got, err = ReadFile(fs, fs.Join(dir, "a"))
			require.NoError(t, err)
			require.Equal(t, "first second, third", string(got))
			_, err = mapper.Map(1, page)
			require.Error(t, err)
			require.NoError(t, f.Close())
		})
	}
}

// A crash of the machine keeps of a mapped file any page of those stored to since the last sync, each as it is or as it
// was synced.
func TestACrashKeepsPagesOfAMappedFileAsSyncedOrAsTheyAre(t *testing.T) {
	m := NewMem()
	f, err := m.Create("/a")
	require.NoError(t, err)
	require.NoError(t, m.SyncDir("/"))
	mapping, err := f.(Mapper).Map(0, 16*page)
	require.NoError(t, err)
	fill := func(c string, from, to int) {
		require.NoError(t, mapping.Store(int64(from*page), []byte(strings.Repeat(c, (to-from)*page))))
	}
	fill("1", 0, 4)
	require.NoError(t, f.Sync())
	before := m.Clone()
	fill("2", 3, 8)
	pages := map[string]int{}
	for seed := range uint64(200) {
		left, err := ReadFile(m.Crash(rand.New(rand.NewPCG(seed, 0))), "/a")
		require.NoError(t, err)
		require.Len(t, left, 16*page)
		text := ""
		for i := range 16 {
			require.Equal(t, strings.Repeat(string(left[i*page]), page), string(left[i*page:(i+1)*page]))
			text += string(left[i*page])
		}
		require.Equal(t, "111", text[:3])
		require.Contains(t, "12", text[3:4])
		require.Equal(t, strings.Repeat("\x00", 8), text[8:])
		pages[strings.ReplaceAll(text[:8], "\x00", "-")]++
	}
	require.Greater(t, len(pages), 20)
	require.Contains(t, pages, "1111----")
	require.Contains(t, pages, "11122222")
	got, err := ReadFile(before, "/a")
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("1", 4*page), strings.Trim(string(got), "\x00"), "a copy does not change with the file")

	require.NoError(t, f.Truncate(5*page))
	lengths := map[int]bool{}
	for seed := range uint64(50) {
		left, err := ReadFile(m.Crash(rand.New(rand.NewPCG(seed, 0))), "/a")
		require.NoError(t, err)
		lengths[len(left)] = true
	}
	require.Equal(t, map[int]bool{5 * page: true, 16 * page: true}, lengths, "the cut came through or not")
	require.ErrorIs(t, mapping.Store(6*page, make([]byte, 8)), syscall.EIO)
	require.NoError(t, mapping.Close())
	require.ErrorIs(t, mapping.Store(0, make([]byte, 8)), os.ErrClosed)
}

func TestOnlyTheSystemsFileSystemIsKnownToMapSafely(t *testing.T) {
	require.False(t, MapsSafely(NewMem(), "/"))
	require.False(t, MapsSafely(OS, "/proc"))
}
