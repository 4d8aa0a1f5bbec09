package raftapply

import (
	"encoding/json"
	"flag"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

var _ flag.Value = (*Size)(nil)

func TestSizesAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "17": 17, "17B": 17, "32KiB": 32 << 10, "32 KiB": 32 << 10, "32kb": 32 << 10, "32K": 32 << 10,
		" 1.5MiB ": 3 << 19, "64MB": 64 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40, "1PiB": 1 << 50, "15EiB": 15 << 60,
		"off": NoYield, "OFF": NoYield, "18446744073709551615": math.MaxUint64,
	} {
		got, err := ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "KiB", "x", "-1", "1x", "1KKB", "1iB", "16EiB", "1e3", "1.2.3", "0x10", "1_0", "NaN", "Inf", "99999999999999999999", "1.5.", "."} {
		_, err := ParseSize(text)
		require.ErrorIs(t, err, ErrInvalidArgument, text)
	}
	for size, want := range map[Size]string{
		0: "0", 1: "1", 1000: "1000", 1024: "1KiB", 32 * KiB: "32KiB", 3 << 19: "1536KiB", GiB: "1GiB", 1 << 60: "1EiB", NoYield: "off",
	} {
		require.Equal(t, want, size.String())
	}
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"32KiB", "1.5 MB", "off", "0", "1.", "18446744073709551616", "9EiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		size, err := ParseSize(s)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalidArgument)
			return
		}
		again, err := ParseSize(size.String())
		require.NoError(t, err)
		require.Equal(t, size, again)
	})
}

func TestSettingsKeepTheirNames(t *testing.T) {
	c := DefaultConfig()
	require.NoError(t, c.Validate())
	var other Config
	got := map[string]string{}
	for name, value := range c.All() {
		got[name] = value
		require.NoError(t, other.Set(name, value))
	}
	require.Equal(t, c, other, "every field has a name, and All writes what Set reads")
	require.Equal(t, map[string]string{
		"apply-yield-write-size": "32KiB", "apply-yield-duration": "500ms", "messages-per-tick": "4096",
		"apply-max-batch-size": "256", "apply-pool-size": "2", "apply-low-priority-pool-size": "1",
		"no-yield-when-alone": "false", "max-batch-keys": "256", "max-batch-bytes": "1MiB", "max-pending-bytes": "64MiB", "slow-turn": "1s",
	}, got)
	for name := range c.All() {
		require.ErrorIs(t, c.Set(name, "many"), ErrInvalidArgument, name)
	}
	require.ErrorIs(t, c.Set("nothing", "1"), ErrInvalidArgument)

	text, err := json.Marshal(c)
	require.NoError(t, err)
	require.Contains(t, string(text), `"ApplyYieldWriteSize":"32KiB"`)
	other = Config{}
	require.NoError(t, json.Unmarshal(text, &other))
	require.Equal(t, c, other)
}

func TestConfigurationsOutOfBoundsChangeNothing(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	before := f.Config()
	for name, value := range map[string]string{
		"apply-pool-size": "0", "apply-low-priority-pool-size": "-1", "apply-max-batch-size": "10241", "messages-per-tick": "0",
		"max-batch-keys": "0", "max-batch-bytes": "2GiB", "max-pending-bytes": "0", "apply-yield-duration": "-1s", "slow-turn": "-1s",
	} {
		require.ErrorIs(t, f.Set(name, value), ErrInvalidArgument, name)
		require.ErrorContains(t, f.Set(name, value), name)
	}
	require.Equal(t, before, f.Config())
	err := f.Update(func(c *Config) { *c = Config{} })
	require.ErrorContains(t, err, "apply-pool-size")
	require.ErrorContains(t, err, "max-pending-bytes", "every problem is told")
}
