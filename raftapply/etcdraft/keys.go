package etcdraft

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ashlardb/ashlar/raftapply"
)

// What a group has in the state family. All numbers are big endian; region is 8 bytes.
//
//	0x01 0x02 region 0x01 index   an entry of the log: kind (1 byte) | term (8 bytes) | data
//	0x01 0x02 region 0x02         raft's HardState, a protobuf
//	0x01 0x02 region 0x03         raftapply's ApplyState
//	0x01 0x02 region 0x04         a snapshot is being installed: number of chunks (8 bytes) | SnapshotMetadata, a protobuf
//	0x01 0x02 region 0x05         where the log begins: index (8 bytes) | term (8 bytes) of the entry before its first
//	0x01 0x02 region 0x06 number  a chunk of a snapshot that came in
//	0x01 0x03 region 0x01         the members as of the ApplyState: raft's ConfState, a protobuf
//
// Keys and their suffixes 1 to 4 are laid out as TiKV's.
const (
	logSuffix     = 0x01
	hardSuffix    = 0x02
	installSuffix = 0x04
	cutSuffix     = 0x05
	stageSuffix   = 0x06
	endSuffix     = 0xff // above all of them
)

func groupKey(id raftapply.RegionID, suffix byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{1, 2}, uint64(id)), suffix)
}

func logKey(id raftapply.RegionID, index uint64) []byte {
	return binary.BigEndian.AppendUint64(groupKey(id, logSuffix), index)
}

func stageKey(id raftapply.RegionID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(groupKey(id, stageSuffix), number)
}

func confKey(id raftapply.RegionID) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{1, 3}, uint64(id)), 1)
}

// logIndex is the index in a key of the log.
func logIndex(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// entryID names an entry of a log.
type entryID struct{ index, term uint64 }

func (e entryID) String() string { return fmt.Sprintf("%d of term %d", e.index, e.term) }

// entryHead is the size of what stands before an entry's data.
const entryHead = 1 + 8

func appendEntryValue(dst []byte, e *raftpb.Entry) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, byte(e.GetType())), e.GetTerm())
	return append(dst, e.GetData()...)
}

// decodeTerm decodes the head of an entry.
func decodeTerm(index uint64, value []byte) (uint64, raftpb.EntryType, error) {
	if len(value) < entryHead || value[0] > byte(raftpb.EntryConfChangeV2) {
		return 0, 0, corrupt("entry %d of the log is not one: %x", index, value[:min(len(value), entryHead)])
	}
	return binary.BigEndian.Uint64(value[1:]), raftpb.EntryType(value[0]), nil
}

// decodeEntry decodes an entry, whose data is a copy.
func decodeEntry(index uint64, value []byte) (*raftpb.Entry, error) {
	term, kind, err := decodeTerm(index, value)
	if err != nil {
		return nil, err
	}
	e := &raftpb.Entry{Index: &index, Term: &term, Type: kind.Enum()}
	if data := value[entryHead:]; len(data) > 0 {
		e.Data = append([]byte(nil), data...)
	}
	return e, nil
}

func appendCut(dst []byte, cut entryID) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, cut.index), cut.term)
}

func decodeCut(value []byte) (entryID, error) {
	if len(value) != 16 {
		return entryID{}, corrupt("where the log begins: %d bytes, want 16", len(value))
	}
	return entryID{binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])}, nil
}

// install says that a snapshot is being put in the place of the data.
type install struct {
	chunks uint64
	meta   *raftpb.SnapshotMetadata
}

func (i install) id() entryID { return entryID{i.meta.GetIndex(), i.meta.GetTerm()} }

func appendInstall(dst []byte, i install) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(binary.BigEndian.AppendUint64(dst, i.chunks), i.meta)
}

func decodeInstall(value []byte) (install, error) {
	if len(value) < 8 {
		return install{}, corrupt("the marker of a snapshot has %d bytes", len(value))
	}
	i := install{binary.BigEndian.Uint64(value), new(raftpb.SnapshotMetadata)}
	if err := proto.Unmarshal(value[8:], i.meta); err != nil {
		return install{}, corrupt("the marker of a snapshot: %v", err)
	}
	if i.meta.GetIndex() == 0 || i.meta.GetTerm() == 0 || len(i.meta.GetConfState().GetVoters()) == 0 {
		return install{}, corrupt("the marker of a snapshot names none: %v", i.meta)
	}
	return i, nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("etcdraft: %w: "+format, append([]any{ErrCorruption}, args...)...)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("etcdraft: %w: "+format, append([]any{ErrInvalidArgument}, args...)...)
}
