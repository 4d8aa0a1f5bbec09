package raftapply

import (
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as people write it: "32KiB", "1.5 MiB", "4096". K, KB and KiB are all 1024, as in
// TiKV's configuration, and so on up to E. "off" is NoYield. It is a flag.Value, and a text for JSON and the like.
type Size uint64

const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB

	// NoYield, as Config.ApplyYieldWriteSize, never yields for the bytes written.
	NoYield Size = math.MaxUint64
)

const sizeUnits = "KMGTPE"

// ParseSize reads a size.
func ParseSize(s string) (Size, error) {
	text := strings.TrimSpace(s)
	if strings.EqualFold(text, "off") {
		return NoYield, nil
	}
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, unit := text[:end], strings.ToUpper(strings.TrimSpace(text[end:]))
	scale := Size(1)
	if unit != "" && unit != "B" {
		unit = strings.TrimSuffix(strings.TrimSuffix(unit, "B"), "I")
		power := strings.Index(sizeUnits, unit)
		if len(unit) != 1 || power < 0 {
			return 0, invalid("a size of %q: want a number and B, KiB, MiB, GiB, TiB, PiB or EiB", s)
		}
		scale <<= 10 * (power + 1)
	}
	if whole, err := strconv.ParseUint(number, 10, 64); err == nil {
		if whole > math.MaxUint64/uint64(scale) {
			return 0, invalid("a size of %q: too large", s)
		}
		return Size(whole) * scale, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || number == "" || strings.Count(number, ".") != 1 || strings.ContainsAny(number, "eExXpP_+-nN") {
		return 0, invalid("a size of %q: want a number and perhaps a unit, such as 32KiB", s)
	}
	if f *= float64(scale); f >= math.MaxUint64 {
		return 0, invalid("a size of %q: too large", s)
	}
	return Size(f), nil
}

// String writes the size with the largest unit in which it is a whole number.
func (s Size) String() string {
	if s == NoYield {
		return "off"
	}
	unit, v := "", uint64(s)
	for _, u := range sizeUnits {
		if v == 0 || v%1024 != 0 {
			break
		}
		v, unit = v/1024, string(u)+"iB"
	}
	return strconv.FormatUint(v, 10) + unit
}

// Set is ParseSize into s.
func (s *Size) Set(text string) error {
	v, err := ParseSize(text)
	if err == nil {
		*s = v
	}
	return err
}

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is Set.
func (s *Size) UnmarshalText(text []byte) error { return s.Set(string(text)) }
