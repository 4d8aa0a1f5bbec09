// What a database counts.
//
//  1. A Set belongs to one family, or to what is nobody's family of a database. Their sum is the database's.
//  2. It has stripes, and a lock for each that nobody else wants but by chance; who finds it taken takes the next. So two who
//     count all the time part ways, which with atomics in stripes they do not: 18 ns against 95 for seven tickers each when
//     chance had put both on one stripe.
//  3. Sums of other tickers are not counted but made by Sum: what a point read has to count is kept short.

package stats

import (
	"sync"
	"unsafe"
)

// Ticker names one thing that is counted.
type Ticker uint8

// The tickers, in the order of RocksDB's list. Misspellings of RocksDB's names are kept.
const (
	BlockCacheMiss Ticker = iota
	BlockCacheHit
	BlockCacheAdd
	BlockCacheAddFailures
	BlockCacheIndexMiss
	BlockCacheIndexHit
	BlockCacheIndexAdd
	BlockCacheIndexBytesInsert
	BlockCacheFilterMiss
	BlockCacheFilterHit
	BlockCacheFilterAdd
	BlockCacheFilterBytesInsert
	BlockCacheDataMiss
	BlockCacheDataHit
	BlockCacheDataAdd
	BlockCacheDataBytesInsert
	BlockCacheBytesWrite
	BloomFilterUseful
	BloomFilterFullPositive
	BloomFilterFullTruePositive
	MemtableHit
	MemtableMiss
	GetHitL0
	GetHitL1
	GetHitL2AndUp
	NumberKeysWritten
	NumberKeysRead
	BytesWritten
	BytesRead
	NumberDBSeek
	NumberDBNext
	NumberDBPrev
	NumberDBSeekFound
	NumberDBNextFound
	NumberDBPrevFound
	IterBytesRead
	NoFileOpens
	NoFileErrors
	StallMicros
	NumberMultiGetCalls
	NumberMultiGetKeysRead
	NumberMultiGetBytesRead
	NumberMergeFailures
	BloomFilterPrefixChecked
	BloomFilterPrefixUseful
	NumberReseeksIteration
	WALFileSynced
	WALFileBytes
	WriteDoneBySelf
	WriteDoneByOther
	WriteWithWAL
	CompactReadBytes
	CompactWriteBytes
	FlushWriteBytes
	NumberSuperversionCleanups
	NumberBlockDecompressed
	NumberIterSkip
	NumberMultiGetKeysFound
	NumIteratorCreated
	NumIteratorDeleted
	BlockCacheDictionaryMiss
	BlockCacheDictionaryHit
	BlockCacheDictionaryAdd
	BlockCacheDictionaryBytesInsert
	FilesDeletedImmediately
	BackgroundErrors
	BlockChecksumComputed

	// Ours: by level of the tree, which is added to them.
	LevelHit                         // point reads that found their key there
	LevelRead   = LevelHit + Levels  // tables whose data a point read searched
	LevelUseful = LevelRead + Levels // tables that a filter spared a point read

	// Tickers is how many there are.
	Tickers = LevelUseful + Levels
)

// Levels is the greatest depth of a tree.
const Levels = 7

var tickerNames = [LevelHit]string{
	BlockCacheMiss:                  "rocksdb.block.cache.miss",
	BlockCacheHit:                   "rocksdb.block.cache.hit",
	BlockCacheAdd:                   "rocksdb.block.cache.add",
	BlockCacheAddFailures:           "rocksdb.block.cache.add.failures",
	BlockCacheIndexMiss:             "rocksdb.block.cache.index.miss",
	BlockCacheIndexHit:              "rocksdb.block.cache.index.hit",
	BlockCacheIndexAdd:              "rocksdb.block.cache.index.add",
	BlockCacheIndexBytesInsert:      "rocksdb.block.cache.index.bytes.insert",
	BlockCacheFilterMiss:            "rocksdb.block.cache.filter.miss",
	BlockCacheFilterHit:             "rocksdb.block.cache.filter.hit",
	BlockCacheFilterAdd:             "rocksdb.block.cache.filter.add",
	BlockCacheFilterBytesInsert:     "rocksdb.block.cache.filter.bytes.insert",
	BlockCacheDataMiss:              "rocksdb.block.cache.data.miss",
	BlockCacheDataHit:               "rocksdb.block.cache.data.hit",
	BlockCacheDataAdd:               "rocksdb.block.cache.data.add",
	BlockCacheDataBytesInsert:       "rocksdb.block.cache.data.bytes.insert",
	BlockCacheBytesWrite:            "rocksdb.block.cache.bytes.write",
	BloomFilterUseful:               "rocksdb.bloom.filter.useful",
	BloomFilterFullPositive:         "rocksdb.bloom.filter.full.positive",
	BloomFilterFullTruePositive:     "rocksdb.bloom.filter.full.true.positive",
	MemtableHit:                     "rocksdb.memtable.hit",
	MemtableMiss:                    "rocksdb.memtable.miss",
	GetHitL0:                        "rocksdb.l0.hit",
	GetHitL1:                        "rocksdb.l1.hit",
	GetHitL2AndUp:                   "rocksdb.l2andup.hit",
	NumberKeysWritten:               "rocksdb.number.keys.written",
	NumberKeysRead:                  "rocksdb.number.keys.read",
	BytesWritten:                    "rocksdb.bytes.written",
	BytesRead:                       "rocksdb.bytes.read",
	NumberDBSeek:                    "rocksdb.number.db.seek",
	NumberDBNext:                    "rocksdb.number.db.next",
	NumberDBPrev:                    "rocksdb.number.db.prev",
	NumberDBSeekFound:               "rocksdb.number.db.seek.found",
	NumberDBNextFound:               "rocksdb.number.db.next.found",
	NumberDBPrevFound:               "rocksdb.number.db.prev.found",
	IterBytesRead:                   "rocksdb.db.iter.bytes.read",
	NoFileOpens:                     "rocksdb.no.file.opens",
	NoFileErrors:                    "rocksdb.no.file.errors",
	StallMicros:                     "rocksdb.stall.micros",
	NumberMultiGetCalls:             "rocksdb.number.multiget.get",
	NumberMultiGetKeysRead:          "rocksdb.number.multiget.keys.read",
	NumberMultiGetBytesRead:         "rocksdb.number.multiget.bytes.read",
	NumberMergeFailures:             "rocksdb.number.merge.failures",
	BloomFilterPrefixChecked:        "rocksdb.bloom.filter.prefix.checked",
	BloomFilterPrefixUseful:         "rocksdb.bloom.filter.prefix.useful",
	NumberReseeksIteration:          "rocksdb.number.reseeks.iteration",
	WALFileSynced:                   "rocksdb.wal.synced",
	WALFileBytes:                    "rocksdb.wal.bytes",
	WriteDoneBySelf:                 "rocksdb.write.self",
	WriteDoneByOther:                "rocksdb.write.other",
	WriteWithWAL:                    "rocksdb.write.wal",
	CompactReadBytes:                "rocksdb.compact.read.bytes",
	CompactWriteBytes:               "rocksdb.compact.write.bytes",
	FlushWriteBytes:                 "rocksdb.flush.write.bytes",
	NumberSuperversionCleanups:      "rocksdb.number.superversion_cleanups",
	NumberBlockDecompressed:         "rocksdb.number.block.decompressed",
	NumberIterSkip:                  "rocksdb.number.iter.skip",
	NumberMultiGetKeysFound:         "rocksdb.number.multiget.keys.found",
	NumIteratorCreated:              "rocksdb.num.iterator.created",
	NumIteratorDeleted:              "rocksdb.num.iterator.deleted",
	BlockCacheDictionaryMiss:        "rocksdb.block.cache.compression.dict.miss",
	BlockCacheDictionaryHit:         "rocksdb.block.cache.compression.dict.hit",
	BlockCacheDictionaryAdd:         "rocksdb.block.cache.compression.dict.add",
	BlockCacheDictionaryBytesInsert: "rocksdb.block.cache.compression.dict.bytes.insert",
	FilesDeletedImmediately:         "rocksdb.files.deleted.immediately",
	BackgroundErrors:                "rocksdb.error.handler.bg.errro.count",
	BlockChecksumComputed:           "rocksdb.block.checksum.compute.count",
}

// Named returns the tickers that have a name of RocksDB's, all below this one.
const Named = LevelHit

// Name returns RocksDB's name of a ticker below Named.
func (t Ticker) Name() string { return tickerNames[t] }

// Counts has a number for each ticker.
type Counts [Tickers]uint64

// Set counts. Its zero value is ready for use by many goroutines.
type Set struct{ parts [stripes]Stripe }

// Stripe is a part of a Set, in the hands of one goroutine between Lock and Unlock.
type Stripe struct {
	mu sync.Mutex
	N  Counts
	_  [64]byte
}

// Lock returns a stripe to add to. Nothing that may wait lies between it and Unlock.
func (s *Set) Lock() *Stripe {
	n := here()
	for range stripes {
		p := &s.parts[n%stripes]
		if p.mu.TryLock() {
			return p
		}
		n++
	}
	p := &s.parts[n%stripes]
	p.mu.Lock()
	return p
}

// Unlock ends what Lock began.
func (p *Stripe) Unlock() { p.mu.Unlock() }

// Add adds n to one ticker. A nil Set counts nothing.
func (s *Set) Add(t Ticker, n uint64) {
	if s != nil {
		p := s.Lock()
		p.N[t] += n
		p.Unlock()
	}
}

// AddTo adds what was counted to c. Sums of other tickers are not in it: Sum makes them.
func (s *Set) AddTo(c *Counts) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		for t, n := range p.N {
			c[t] += n
		}
		p.mu.Unlock()
	}
}

// Tally is what a point read has met, until Flush counts it. Its zero value is ready.
type Tally struct {
	n      uint8
	events [22]Ticker
	more   []Ticker // what found no place: where one read meets some twenty tables
}

// Count counts one.
func (t *Tally) Count(k Ticker) {
	if int(t.n) < len(t.events) {
		t.events[t.n] = k
		t.n++
	} else {
		t.more = append(t.more, k)
	}
}

// Flush counts in s what was told since the last time, and n more of ticker k.
func (t *Tally) Flush(s *Set, k Ticker, n uint64) {
	p := s.Lock()
	t.FlushTo(p)
	p.N[k] += n
	p.Unlock()
}

// FlushTo is Flush for who has the stripe.
func (t *Tally) FlushTo(p *Stripe) {
	for _, e := range t.events[:t.n] {
		p.N[e]++
	}
	for _, e := range t.more {
		p.N[e]++
	}
	t.n, t.more = 0, t.more[:0]
}

// here returns a number below stripes that differs between goroutines and mostly stays the same for one.
func here() uint32 {
	var at byte
	// Stacks are 2 KiB and more; multiplying brings all bits of their numbers to the top.
	return uint32(uintptr(unsafe.Pointer(&at))>>11) * 0x9e3779b1 >> 29
}

// Sum fills in the tickers that are sums of others.
func (c *Counts) Sum() {
	c[BlockCacheMiss] = c[BlockCacheDataMiss] + c[BlockCacheIndexMiss] + c[BlockCacheFilterMiss] + c[BlockCacheDictionaryMiss]
	c[BlockCacheHit] = c[BlockCacheDataHit] + c[BlockCacheIndexHit] + c[BlockCacheFilterHit] + c[BlockCacheDictionaryHit]
	c[BlockCacheAdd] = c[BlockCacheDataAdd] + c[BlockCacheIndexAdd] + c[BlockCacheFilterAdd] + c[BlockCacheDictionaryAdd]
	c[BlockCacheBytesWrite] = c[BlockCacheDataBytesInsert] + c[BlockCacheIndexBytesInsert] + c[BlockCacheFilterBytesInsert] +
		c[BlockCacheDictionaryBytesInsert]
	c[BloomFilterUseful], c[GetHitL2AndUp] = 0, 0
	c[GetHitL0], c[GetHitL1] = c[LevelHit], c[LevelHit+1]
	for n := range Ticker(Levels) {
		c[BloomFilterUseful] += c[LevelUseful+n]
		if n >= 2 {
			c[GetHitL2AndUp] += c[LevelHit+n]
		}
	}
	// Each point read has asked the memtables; those of MultiGet count apart.
	c[NumberKeysRead] = c[MemtableHit] + c[MemtableMiss] - c[NumberMultiGetKeysRead]
}
