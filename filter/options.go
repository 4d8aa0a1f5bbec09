package filter

import (
	"fmt"
	"strconv"
	"strings"
)

// How a policy stands in RocksDB's OPTIONS files: bloomfilter:BITS:false, or ribbonfilter:BITS:LEVEL, where levels above
// LEVEL get Bloom filters; -1 is Ribbon everywhere.
const (
	bloomOption  = "bloomfilter"
	ribbonOption = "ribbonfilter"
)

// OptionText is the policy in RocksDB's OPTIONS file.
func (p bloomPolicy) OptionText() string {
	return fmt.Sprintf("%s:%s:false", bloomOption, p.bits())
}

// OptionText is the policy in RocksDB's OPTIONS file.
func (p ribbonPolicy) OptionText() string {
	return fmt.Sprintf("%s:%s:-1", ribbonOption, p.bits())
}

func (p bloomPolicy) bits() string { return strconv.FormatFloat(p.BitsPerKey(), 'f', -1, 64) }

// Parse returns the policy that a RocksDB OPTIONS file names, or nil if it names none, or one that is not built in.
func Parse(text string) (Policy, error) {
	name, rest, _ := strings.Cut(text, ":")
	if name != bloomOption && name != ribbonOption {
		return nil, nil
	}
	bits, _, _ := strings.Cut(rest, ":")
	n, err := strconv.ParseFloat(bits, 64)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%q has no bits per key", text)
	}
	switch {
	case n == 0:
		return nil, nil
	case name == ribbonOption:
		return Ribbon(n), nil
	}
	return Bloom(n), nil
}
