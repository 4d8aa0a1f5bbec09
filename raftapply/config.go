package raftapply

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"
)

// Config says how the work is shared. Its names are TiKV's where TiKV has them. Fields are taken as they are: start from
// DefaultConfig. All may be changed while a System runs (Update, Set); a worker looks at them when a round begins.
type Config struct {
	// ApplyYieldWriteSize is how many bytes a region may write in one turn before others have theirs. It is looked at only
	// after a write of the shared batch, so that a region that yields has left nothing unwritten; 0 yields after every write
	// that a turn makes, NoYield never.
	//
	// 32 KiB is right although a raft entry may have megabytes, because the smallest step is not the entry but the write:
	// more than MaxBatchKeys keys or MaxBatchBytes bytes. 256 pairs of the 128 bytes that a row and its indexes commonly
	// take are 32 KiB, so a bulk writer goes back in the line after each write. With less nothing is finer, since there is
	// no write in between; with more a turn takes several writes, all of which a small entry of another region stands
	// behind. Yielding itself costs next to nothing: the write had to be made anyway. An entry is never cut, so one of many
	// megabytes is one turn: who makes entries should keep them small (TiKV: at most 1 MiB for entries put together).
	ApplyYieldWriteSize Size
	// ApplyYieldDuration is how long a turn may take, looked at as ApplyYieldWriteSize is. 0 is off.
	ApplyYieldDuration time.Duration
	// NoYieldWhenAlone lets a region go on, with a new budget, if no other waits.
	NoYieldWhenAlone bool
	// MessagesPerTick is how many tasks a region takes from its mailbox in one turn.
	MessagesPerTick int
	// ApplyMaxBatchSize is how many turns a worker makes before it writes the batch, 1 to 10240.
	ApplyMaxBatchSize int
	// MaxBatchKeys: a batch with more keys is written before the next entry. Keys are counted over all regions.
	MaxBatchKeys int
	// MaxBatchBytes: a batch of this many bytes is written before the next entry. 0 is off, as in TiKV; then large values
	// make large writes, and ApplyYieldWriteSize has no say in between.
	MaxBatchBytes Size
	// ApplyPoolSize is the number of workers, and ApplyLowPriorityPoolSize that of the low-priority lane's; without any
	// there the lane does not exist.
	ApplyPoolSize, ApplyLowPriorityPoolSize int
	// MaxPendingBytes is how much may wait in one region. Send refuses a task when it is exceeded already.
	MaxPendingBytes Size
	// SlowTurn: a turn that takes longer is logged. 0 is off.
	SlowTurn time.Duration
}

// DefaultConfig returns TiKV's defaults, and ours where it has none.
func DefaultConfig() Config {
	return Config{
		ApplyYieldWriteSize:      32 * KiB,
		ApplyYieldDuration:       500 * time.Millisecond,
		MessagesPerTick:          4096,
		ApplyMaxBatchSize:        256,
		MaxBatchKeys:             256,
		MaxBatchBytes:            MiB,
		ApplyPoolSize:            2,
		ApplyLowPriorityPoolSize: 1,
		MaxPendingBytes:          64 * MiB,
		SlowTurn:                 time.Second,
	}
}

// maxPool is the most workers of a lane.
const maxPool = 256

// Validate finds everything that is wrong, joined. Each matches ErrInvalidArgument.
func (c *Config) Validate() error {
	var errs []error
	between := func(name string, v, low, high int) {
		if v < low || v > high {
			errs = append(errs, invalid("%s is %d: want %d to %d", name, v, low, high))
		}
	}
	between("apply-pool-size", c.ApplyPoolSize, 1, maxPool)
	between("apply-low-priority-pool-size", c.ApplyLowPriorityPoolSize, 0, maxPool)
	between("apply-max-batch-size", c.ApplyMaxBatchSize, 1, 10240)
	between("messages-per-tick", c.MessagesPerTick, 1, 1<<24)
	between("max-batch-keys", c.MaxBatchKeys, 1, 1<<24)
	if c.MaxBatchBytes > GiB {
		errs = append(errs, invalid("max-batch-bytes is %v: want at most 1GiB", c.MaxBatchBytes))
	}
	if c.MaxPendingBytes == 0 {
		errs = append(errs, invalid("max-pending-bytes is 0: want 1 or more"))
	}
	if c.ApplyYieldDuration < 0 {
		errs = append(errs, invalid("apply-yield-duration is %v: want 0 or more", c.ApplyYieldDuration))
	}
	if c.SlowTurn < 0 {
		errs = append(errs, invalid("slow-turn is %v: want 0 or more", c.SlowTurn))
	}
	return errors.Join(errs...)
}

// field is one of Config's under its name in configuration files.
type field struct {
	name string
	get  func(*Config) string
	set  func(*Config, string) error
}

func of[T any](name string, at func(*Config) *T, parse func(string) (T, error), format func(T) string) field {
	return field{name,
		func(c *Config) string { return format(*at(c)) },
		func(c *Config, text string) error {
			v, err := parse(text)
			if err == nil {
				*at(c) = v
			}
			return err
		}}
}

func sizeField(name string, at func(*Config) *Size) field {
	return of(name, at, ParseSize, Size.String)
}

func intField(name string, at func(*Config) *int) field {
	return of(name, at, strconv.Atoi, strconv.Itoa)
}

func durationField(name string, at func(*Config) *time.Duration) field {
	return of(name, at, time.ParseDuration, time.Duration.String)
}

var fields = []field{
	sizeField("apply-yield-write-size", func(c *Config) *Size { return &c.ApplyYieldWriteSize }),
	durationField("apply-yield-duration", func(c *Config) *time.Duration { return &c.ApplyYieldDuration }),
	of("no-yield-when-alone", func(c *Config) *bool { return &c.NoYieldWhenAlone }, strconv.ParseBool, strconv.FormatBool),
	intField("messages-per-tick", func(c *Config) *int { return &c.MessagesPerTick }),
	intField("apply-max-batch-size", func(c *Config) *int { return &c.ApplyMaxBatchSize }),
	intField("max-batch-keys", func(c *Config) *int { return &c.MaxBatchKeys }),
	sizeField("max-batch-bytes", func(c *Config) *Size { return &c.MaxBatchBytes }),
	intField("apply-pool-size", func(c *Config) *int { return &c.ApplyPoolSize }),
	intField("apply-low-priority-pool-size", func(c *Config) *int { return &c.ApplyLowPriorityPoolSize }),
	sizeField("max-pending-bytes", func(c *Config) *Size { return &c.MaxPendingBytes }),
	durationField("slow-turn", func(c *Config) *time.Duration { return &c.SlowTurn }),
}

// Set sets a field by its name in configuration files, such as "apply-yield-write-size", from text, such as "32KiB" or
// "500ms". It does not validate.
func (c *Config) Set(name, value string) error {
	for _, f := range fields {
		if f.name != name {
			continue
		}
		if err := f.set(c, value); err != nil {
			if errors.Is(err, ErrInvalidArgument) {
				return fmt.Errorf("%s: %w", name, err)
			}
			return invalid("%s: %v", name, err)
		}
		return nil
	}
	return invalid("there is no setting %q", name)
}

// All returns the fields by their names in configuration files, with values that Set reads.
func (c *Config) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, f := range fields {
			if !yield(f.name, f.get(c)) {
				return
			}
		}
	}
}
