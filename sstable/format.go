package sstable

// This file owns the bytes of a table that are not inside a block: the footer in its three forms, the trailer of a
// block, and the names in the metaindex. Reader and Writer both use it.

import (
	"encoding/binary"
	"fmt"

	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/sstable/block"
)

const (
	magic     = 0x88e241b785f4cff7
	oldMagic  = 0xdb4775248b80fb57 // format version 0, LevelDB's
	extended  = 0x007a003e         // second magic of versions 6 and 7
	maxFormat = 7

	footerSize    = 53
	oldFooterSize = 48
	handlesSize   = 40 // both handles of a footer before version 6, with padding
)

// Names in the metaindex.
const (
	metaProperties        = "rocksdb.properties"
	metaIndex             = "rocksdb.index"
	metaRangeDel          = "rocksdb.range_del"
	metaDictionary        = "rocksdb.compression_dict"
	metaFullFilter        = "fullfilter."
	metaPartitionedFilter = "partitionedfilter."
)

// footer is the end of a table.
//
//	versions 1 to 5:  | checksum u8 | metaindex, index handles, padded to 40 | version u32 | magic u64 |
//	version 0:        |               metaindex, index handles, padded to 40               | magic u64 |
//	versions 6, 7:    | checksum u8 | 3e 00 7a 00 | footer checksum u32 | context base u32 | metaindex size u32 |
//	                  | 24 zero bytes | version u32 | magic u64 |
//
// Since version 6 the metaindex stands directly before the footer, the index is named in the metaindex, and every
// checksum depends on the place of what it covers.
type footer struct {
	version   int
	sum       checksum.Type
	base      uint32 // of the checksums' context; 0 before version 6
	metaindex block.Handle
	index     block.Handle // of size 0 since version 6
	offset    uint64       // where the footer starts
}

// checksum is what the trailer of a block at off stores.
func (f *footer) checksum(data []byte, typeByte byte, off uint64) uint32 {
	return checksum.Block(f.sum, data, typeByte) + checksum.ContextModifier(f.base, off)
}

func (f *footer) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, f.sum.Disk())
	if f.version < 6 {
		dst = f.index.Append(f.metaindex.Append(dst))
		for len(dst) < start+1+handlesSize {
			dst = append(dst, 0)
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(f.version))
		return binary.LittleEndian.AppendUint64(dst, magic)
	}
	dst = binary.LittleEndian.AppendUint32(dst, extended)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, f.base)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(f.metaindex.Size))
	dst = append(dst, make([]byte, 24)...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(f.version))
	dst = binary.LittleEndian.AppendUint64(dst, magic)
	b := dst[start:]
	binary.LittleEndian.PutUint32(b[5:], f.checksum(b[:footerSize-1], b[footerSize-1], f.offset))
	return dst
}

// parseFooter reads the footer of a file of the given size; tail is the file's end, as much of it as is there.
func parseFooter(path string, tail []byte, size int64) (footer, error) {
	bad := func(format string, args ...any) (footer, error) {
		return footer{}, corrupt.At(path, max(size-footerSize, 0), "footer: "+format, args...)
	}
	if len(tail) < oldFooterSize {
		return bad("file of %d bytes is too short for a table", size)
	}
	var f footer
	switch m := binary.LittleEndian.Uint64(tail[len(tail)-8:]); {
	case m == oldMagic:
		f.sum = checksum.CRC32C
		f.offset = uint64(size) - oldFooterSize
		tail = tail[len(tail)-oldFooterSize:]
	case m == magic && len(tail) >= footerSize:
		f.offset = uint64(size) - footerSize
		tail = tail[len(tail)-footerSize:]
		f.version = int(binary.LittleEndian.Uint32(tail[41:]))
		if f.version < 1 {
			return bad("format version 0 with the magic number of later ones")
		}
		if f.version > maxFormat {
			return footer{}, corrupt.Unsupported(path, int64(f.offset), "table of format version %d", f.version)
		}
		var ok bool
		if f.sum, ok = checksum.FromDisk(tail[0]); !ok {
			return bad("unknown checksum type %d", tail[0])
		}
		if f.version < 6 {
			tail = tail[1:]
		}
	default:
		return bad("no table: magic number %#x", m)
	}
	if f.version < 6 {
		var ok bool
		b := tail[:handlesSize]
		if f.metaindex, b, ok = block.ParseHandle(b); !ok {
			return bad("bad metaindex handle")
		}
		if f.index, _, ok = block.ParseHandle(b); !ok {
			return bad("bad index handle")
		}
	} else {
		if binary.LittleEndian.Uint32(tail[1:]) != extended {
			return bad("no second magic number")
		}
		f.base = binary.LittleEndian.Uint32(tail[9:])
		var b [footerSize]byte
		copy(b[:], tail)
		clear(b[5:9])
		want := f.checksum(b[:footerSize-1], b[footerSize-1], f.offset)
		if got := binary.LittleEndian.Uint32(tail[5:]); f.sum != checksum.None && got != want {
			return bad("checksum %08x, want %08x", got, want)
		}
		if binary.LittleEndian.Uint64(tail[33:]) != 0 {
			return bad("reserved bytes are not zero")
		}
		f.metaindex.Size = uint64(binary.LittleEndian.Uint32(tail[13:]))
		if f.metaindex.Size+block.TrailerSize > f.offset {
			return bad("metaindex of %d bytes is larger than the file", f.metaindex.Size)
		}
		f.metaindex.Offset = f.offset - block.TrailerSize - f.metaindex.Size
	}
	if err := f.check(f.metaindex); err != nil {
		return bad("metaindex: %w", err)
	}
	if f.version < 6 {
		if err := f.check(f.index); err != nil {
			return bad("index: %w", err)
		}
	}
	return f, nil
}

// check tells whether a block at h lies in the file.
func (f *footer) check(h block.Handle) error {
	if h.Offset > f.offset || h.Size > f.offset-h.Offset || f.offset-h.Offset-h.Size < block.TrailerSize {
		return fmt.Errorf("block at %d of %d bytes reaches into the footer at %d", h.Offset, h.Size, f.offset)
	}
	return nil
}
