package compress

// zstd coders are dear to make and bound to one dictionary, so they are kept in pools, one pair of pools for each dictionary
// in use. At most maxDicts dictionaries are remembered; one that is pushed out is loaded again at its next block.

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
)

// trainedMagic begins a dictionary with entropy tables; any other is content only.
var trainedMagic = []byte{0x37, 0xa4, 0x30, 0xec}

const maxDicts = 64

// coders makes and keeps the zstd coders of one dictionary, or of none.
type coders struct {
	dict     []byte
	encoders sync.Pool // of *zstd.Encoder
	decoders sync.Pool // of *zstd.Decoder
}

// zstdPlain has the coders for blocks without a dictionary.
var zstdPlain coders

// zstdDicts has those with one. A dictionary is known by its content: its slice may be another one at each call.
var zstdDicts struct {
	mu     sync.Mutex
	coders map[xxh3.Uint128]*coders
}

func zstdCoders(dict []byte) *coders {
	if len(dict) == 0 {
		return &zstdPlain
	}
	key := xxh3.Hash128(dict)
	zstdDicts.mu.Lock()
	defer zstdDicts.mu.Unlock()
	c := zstdDicts.coders[key]
	if c == nil {
		if zstdDicts.coders == nil {
			zstdDicts.coders = make(map[xxh3.Uint128]*coders)
		}
		if len(zstdDicts.coders) >= maxDicts {
			for some := range zstdDicts.coders {
				delete(zstdDicts.coders, some)
				break
			}
		}
		c = &coders{dict: bytes.Clone(dict)}
		zstdDicts.coders[key] = c
	}
	return c
}

func (c *coders) encoder() (*zstd.Encoder, error) {
	if e, ok := c.encoders.Get().(*zstd.Encoder); ok {
		return e, nil
	}
	options := []zstd.EOption{
		zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false), // the block's own checksum covers it
		zstd.WithSingleSegment(true),
	}
	if bytes.HasPrefix(c.dict, trainedMagic) {
		options = append(options, zstd.WithEncoderDict(c.dict))
	} else if len(c.dict) > 0 {
		options = append(options, zstd.WithEncoderDictRaw(0, c.dict))
	}
	return zstd.NewWriter(nil, options...)
}

func (c *coders) decoder() (*zstd.Decoder, error) {
	if d, ok := c.decoders.Get().(*zstd.Decoder); ok {
		return d, nil
	}
	options := []zstd.DOption{
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(MaxBlockSize),
	}
	if bytes.HasPrefix(c.dict, trainedMagic) {
		options = append(options, zstd.WithDecoderDicts(c.dict))
	} else if len(c.dict) > 0 {
		options = append(options, zstd.WithDecoderDictRaw(0, c.dict))
	}
	return zstd.NewReader(nil, options...)
}

func compressZSTD(dst, src, dict []byte) ([]byte, bool) {
	c := zstdCoders(dict)
	e, err := c.encoder()
	if err != nil {
		return dst, false
	}
	dst = e.EncodeAll(src, dst)
	c.encoders.Put(e)
	return dst, true
}

func decompressZSTD(dst, payload, dict []byte) error {
	c := zstdCoders(dict)
	d, err := c.decoder()
	if err != nil {
		return fmt.Errorf("ZSTD dictionary: %w", err)
	}
	out, err := d.DecodeAll(payload, dst[:0:len(dst)])
	c.decoders.Put(d)
	if err != nil {
		return fmt.Errorf("ZSTD: %w", err)
	}
	if len(out) != len(dst) {
		return errNotWhole
	}
	if len(out) > 0 && &out[0] != &dst[0] {
		copy(dst, out)
	}
	return nil
}
