package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ashlardb/ashlar/raftapply"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A frame, numbers big endian:
//
//	length of the rest, 4 bytes | region, 8 bytes | raftpb.Message
//
// A snapshot is a frame with its message, then its chunks, each as length, 4 bytes, and bytes, and a length of 0 as the end.

const (
	frameHeader = 4 + 8
	// maxFrame holds raft's MaxSizePerMsg and an entry of any size that a node takes.
	maxFrame = 16 << 20
	// maxChunk holds a chunk of a snapshot with the largest value in it.
	maxChunk = 64 << 20
)

// ErrFrame is matched by the errors of bytes that no peer sends.
var ErrFrame = errors.New("not a frame of a peer's")

// appendFrame appends a message of a region.
func appendFrame(dst []byte, region raftapply.RegionID, m *raftpb.Message) ([]byte, error) {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 0), uint64(region))
	dst, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
	if err != nil {
		return nil, err
	}
	size := len(dst) - start - 4
	if size > maxFrame {
		return nil, fmt.Errorf("%w: a message of %d bytes", ErrFrame, size)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(size))
	return dst, nil
}

// readFrame reads a message. io.EOF is a clean end.
func readFrame(r io.Reader) (raftapply.RegionID, *raftpb.Message, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:4]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(header[:])
	if size < 8 || size > maxFrame {
		return 0, nil, fmt.Errorf("%w: a length of %d", ErrFrame, size)
	}
	if _, err := io.ReadFull(r, header[4:]); err != nil {
		return 0, nil, unexpected(err)
	}
	body, err := readExactly(r, int(size-8))
	if err != nil {
		return 0, nil, err
	}
	m := &raftpb.Message{}
	if err := proto.Unmarshal(body, m); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return raftapply.RegionID(binary.BigEndian.Uint64(header[4:])), m, nil
}

// readExactly takes memory as bytes come, not as a length promises.
func readExactly(r io.Reader, n int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(body) < n {
		err = io.ErrUnexpectedEOF
	}
	return body, err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// check says what is wrong with a message that came to self. It need not be from the node that brings it: a follower hands
// on what it is asked and the leader should be. raft itself lets a message pass for one of its own if it claims to come from
// its storage threads.
func check(m *raftpb.Message, self uint64) error {
	switch {
	case m.GetFrom() == raft.None || raft.IsLocalMsgTarget(m.GetFrom()):
		return fmt.Errorf("%w: from node %d", ErrFrame, m.GetFrom())
	case m.GetTo() != self:
		return fmt.Errorf("%w: to node %d", ErrFrame, m.GetTo())
	case raft.IsLocalMsg(m.GetType()):
		return fmt.Errorf("%w: type %v", ErrFrame, m.GetType())
	}
	return nil
}
