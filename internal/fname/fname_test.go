package fname

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreRocksDBs(t *testing.T) {
	for _, c := range []struct {
		name string
		kind Kind
		num  uint64
	}{
		{"CURRENT", Current, 0}, {"IDENTITY", Identity, 0}, {"LOCK", Lock, 0}, {"LOG", InfoLog, 0},
		{"MANIFEST-000005", Manifest, 5}, {"OPTIONS-000013", Options, 13}, {"000007.log", Log, 7}, {"000009.sst", Table, 9},
		{"000011.blob", Blob, 11}, {"000005.dbtmp", Temp, 5}, {"000000.dbtmp", Temp, 0},
		{"OPTIONS-000013.dbtmp", OptionsTemp, 13}, {"LOG.old.1700000000000000", OldInfoLog, 1700000000000000},
		{"1234567.sst", Table, 1234567}, {"4611686018427387903.sst", Table, MaxNum},
	} {
		k, n, ok := Parse(c.name)
		require.True(t, ok, c.name)
		require.Equal(t, c.kind, k, c.name)
		require.Equal(t, c.num, n, c.name)
		require.Equal(t, c.name, Make(k, n))
	}
}

func TestOldAndOddSpellingsAreRead(t *testing.T) {
	for name, kind := range map[string]Kind{"10.sst": Table, "000010.ldb": Table, "MANIFEST-10": Manifest, "10.log": Log} {
		k, n, ok := Parse(name)
		require.True(t, ok, name)
		require.Equal(t, kind, k)
		require.Equal(t, uint64(10), n)
	}
}

func TestForeignNamesAreLeftAlone(t *testing.T) {
	for _, name := range []string{
		"", "current", "CURRENT.bak", "MANIFEST", "MANIFEST-", "MANIFEST-x", "MANIFEST-000005.dbtmp", "+5.sst", "-5.sst", "5_0.sst",
		"000000.sst", "000000.log", "MANIFEST-000000", "4611686018427387904.sst", "99999999999999999999999.sst", ".sst", "5.sst.tmp",
		"OPTIONS-", "LOG.old.", "LOG.old", "archive", "5.csv", " 5.sst", "5 .sst", "0x5.sst",
	} {
		k, n, ok := Parse(name)
		require.False(t, ok, name)
		require.Equal(t, Unknown, k)
		require.Zero(t, n)
	}
	require.Empty(t, Make(Unknown, 5))
}

func TestEveryKindHasANameThatComesBack(t *testing.T) {
	for k := Table; k <= Blob; k++ {
		got, n, ok := Parse(Make(k, 77))
		require.True(t, ok)
		require.Equal(t, k, got)
		require.Equal(t, k.HasNum(), n == 77)
	}
}

func Example() {
	fmt.Println(Make(Table, 12))
	k, num, ok := Parse("MANIFEST-000005")
	fmt.Println(k == Manifest, num, ok)
	// Output:
	// 000012.sst
	// true 5 true
}

func FuzzFileName(f *testing.F) {
	for _, s := range []string{"CURRENT", "000007.log", "7.sst", "MANIFEST-000001", "OPTIONS-000001.dbtmp", "LOG.old.1", "0.dbtmp"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		k, n, ok := Parse(name)
		if ok == (k == Unknown) || n > MaxNum || !ok && n != 0 {
			t.Fatalf("%q parsed as %d %d %v", name, k, n, ok)
		}
		if !ok {
			return
		}
		k2, n2, ok := Parse(Make(k, n))
		if !ok || k2 != k || n2 != n {
			t.Fatalf("%q became %q", name, Make(k, n))
		}
	})
}
