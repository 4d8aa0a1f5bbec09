package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/raftapply/etcdraft"
	"github.com/ashlardb/ashlar/vfs"
)

// Options of a node. ID, Dir and Nodes are needed.
type Options struct {
	// ID is the node's name in all regions, from 1. A node that was removed, or lost its directory, comes back under another.
	ID uint64
	// Dir is where the database lives.
	Dir string
	// Nodes has the addresses of all nodes, this one's included.
	Nodes map[uint64]string
	// Join makes a new node wait to be added, instead of beginning with all Nodes as members.
	Join bool
	// Splits are the keys at which a region ends and the next begins, in order. All nodes have the same, for good.
	Splits [][]byte
	// Tick is raft's clock: a leader is missed after ten. 0 is 100 ms.
	Tick time.Duration
	// LogEntries is how many applied entries are kept for nodes that are behind. 0 is etcdraft's default.
	LogEntries uint64
	// WriteBufferSize of each column family. 0 is 16 MiB.
	WriteBufferSize raftapply.Size
	// Apply is how entries are applied. nil is raftapply's default.
	Apply *raftapply.Config
	// Faults serves POST /debug/fault, which cuts the node off others.
	Faults bool
	// FS is the file system. nil is the operating system's.
	FS vfs.FS
	// Listener, if not nil, is used instead of listening at the node's address.
	Listener net.Listener
	// Logger gets what happens. nil is slog.Default().
	Logger *slog.Logger

	verbose bool // a flag of the command
}

// ErrOptions is matched by what is wrong with Options.
var ErrOptions = errors.New("raftkv: options")

// DefaultSplits make four regions of keys in English letters.
func DefaultSplits() [][]byte { return [][]byte{[]byte("g"), []byte("n"), []byte("t")} }

func (o *Options) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
	}
	if o.ID == 0 {
		bad("a node's id is 1 or more")
	}
	if o.Dir == "" {
		bad("a node needs a directory")
	}
	if _, ok := o.Nodes[o.ID]; !ok {
		bad("there is no address of node %d, which is this one", o.ID)
	}
	last := []byte{}
	for _, s := range o.Splits {
		if bytes.Compare(s, last) <= 0 {
			bad("region ends at %q: want keys in order, none of them twice or empty", s)
		}
		last = s
	}
	if o.Tick < 0 {
		bad("tick is %v: want more than 0", o.Tick)
	}
	return errors.Join(errs...)
}

// raft returns the settings of all groups.
func (o *Options) raft() etcdraft.Config {
	return etcdraft.Config{MaxSizePerMsg: 1 << 20, MaxCommittedSizePerReady: 4 << 20, MaxUncommittedEntriesSize: 32 << 20, LogEntries: o.LogEntries}
}

// regionOf returns the region that a key is in: they are numbered from 1.
func (o *Options) regionOf(key []byte) raftapply.RegionID {
	id := raftapply.RegionID(1)
	for _, s := range o.Splits {
		if bytes.Compare(key, s) < 0 {
			break
		}
		id++
	}
	return id
}

// bounds returns where a region begins and ends; nil is open.
func (o *Options) bounds(id raftapply.RegionID) (begin, end []byte) {
	if id > 1 {
		begin = o.Splits[id-2]
	}
	if int(id) <= len(o.Splits) {
		end = o.Splits[id-1]
	}
	return begin, end
}
