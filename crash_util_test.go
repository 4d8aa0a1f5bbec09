package ashlar

// What the crash, kill and fault tests share: a chronicle of what was done to a database, and the judgement of what a
// crash has left of it.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

// deed is one batch. In each family that it touches it also puts a marker of its own, so that what a crash has left says
// which deeds came through and which did not.
type deed struct {
	id       int
	writer   int // whose keys it writes; no two writers share a key
	edits    []deedEdit
	unlogged bool
	// Moments of the chronicle's clock, 0 for never: when it was begun, when it had returned without an error, and when
	// something had returned that makes it survive a power cut.
	began, acked, safe int
}

type deedEdit struct {
	family     uint32
	key, value string
	remove     bool
}

func (d *deed) marker() string { return fmt.Sprintf("!%06d", d.id) }

func (d *deed) touches(family uint32) bool {
	return slices.ContainsFunc(d.edits, func(e deedEdit) bool { return e.family == family })
}

// batch encodes the deed.
func (d *deed) batch(db *DB) (*Batch, error) {
	b := db.NewBatch()
	marked := map[uint32]bool{}
	for _, e := range d.edits {
		cf := db.familyByID(e.family)
		if cf == nil {
			return nil, ErrColumnFamilyDropped
		}
		if !marked[e.family] {
			marked[e.family] = true
			if err := b.Put(cf, []byte(d.marker()), nil); err != nil {
				return nil, err
			}
		}
		err := b.Put(cf, []byte(e.key), []byte(e.value))
		if e.remove {
			err = b.Delete(cf, []byte(e.key))
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// familyStory is when a family was made and dropped.
type familyStory struct {
	name                                     string
	makeBegan, made, dropBegan, dropFinished int
}

// chronicle is what was done to a database, in the order of its clock. All methods may be called from many goroutines.
type chronicle struct {
	mu       sync.Mutex
	clock    int
	deeds    []*deed
	lastID   int
	families map[uint32]*familyStory
	// makings are the creations of families that were begun and whose end is not known.
	makings map[string]int
}

func newChronicle() *chronicle {
	return &chronicle{
		families: map[uint32]*familyStory{0: {name: DefaultColumnFamilyName, makeBegan: 1, made: 1}},
		makings:  map[string]int{}, clock: 1,
	}
}

func (c *chronicle) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	return c.clock
}

// begin enters a deed.
func (c *chronicle) begin(writer int, unlogged bool, edits []deedEdit) *deed {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	c.lastID++
	d := &deed{id: c.lastID, writer: writer, edits: edits, unlogged: unlogged, began: c.clock}
	for i := range d.edits {
		d.edits[i].value = fmt.Sprintf("%06d %s", d.id, d.edits[i].value)
	}
	c.deeds = append(c.deeds, d)
	return d
}

// ended says that a deed has returned without an error, and was synced.
func (c *chronicle) ended(d *deed, synced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	d.acked = c.clock
	if synced {
		d.safe = c.clock
		c.safeLocked(d.began, false)
	}
}

// synced says that a call begun at moment since has returned, which makes safe what had returned before; with unlogged,
// also what is in no log.
func (c *chronicle) synced(since int, unlogged bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	c.safeLocked(since, unlogged)
}

func (c *chronicle) safeLocked(since int, unlogged bool) {
	for _, d := range c.deeds {
		if d.safe == 0 && d.acked != 0 && d.acked <= since && (unlogged || !d.unlogged) {
			d.safe = c.clock
		}
	}
}

// do does a batch and enters it.
func (c *chronicle) do(db *DB, writer int, o *WriteOptions, edits []deedEdit) error {
	if o == nil {
		o = &WriteOptions{}
	}
	d := c.begin(writer, o.DisableWAL, edits)
	b, err := d.batch(db)
	if err == nil {
		err = db.Write(b, o)
	}
	if err == nil {
		c.ended(d, o.Sync)
	}
	return err
}

// flush flushes every family.
func (c *chronicle) flush(db *DB) error {
	since := c.now()
	err := db.Flush(context.Background(), nil)
	if err == nil {
		c.synced(since, true)
	}
	return err
}

func (c *chronicle) syncWAL(db *DB) error {
	since := c.now()
	err := error(nil)
	if db.opts.ManualWALFlush {
		err = db.FlushWAL(true)
	} else {
		err = db.SyncWAL(context.Background())
	}
	if err == nil {
		c.synced(since, false)
	}
	return err
}

// dropOrMake drops one of three families, or makes it if it is not there: so names come again.
func (c *chronicle) dropOrMake(db *DB, rng *rand.Rand) error {
	name := fmt.Sprint("family", rng.IntN(3))
	if cf, ok := db.ColumnFamily(name); ok {
		return c.drop(db, cf)
	}
	return c.create(db, name)
}

func (c *chronicle) create(db *DB, name string) error {
	c.mu.Lock()
	c.clock++
	since := c.clock
	c.makings[name] = since
	c.mu.Unlock()
	cf, err := db.CreateColumnFamily(name, nil)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.clock++
		c.families[cf.ID()] = &familyStory{name: name, makeBegan: since, made: c.clock}
		delete(c.makings, name)
	}
	return err
}

func (c *chronicle) drop(db *DB, cf *ColumnFamily) error {
	c.mu.Lock()
	c.clock++
	c.families[cf.ID()].dropBegan = c.clock
	c.mu.Unlock()
	err := db.DropColumnFamily(cf)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.clock++
		c.families[cf.ID()].dropFinished = c.clock
	}
	return err
}

// judge says whether db is what a crash may have left that came after moment before and not after moment after, and
// returns the chronicle with what was left as its only and safe deeds. With process, the machine lived on: everything
// that had returned and that a log holds must be there.
func (c *chronicle) judge(db *DB, before, after int, process bool) (*chronicle, error) {
	for err := range db.Check(context.Background()) {
		return nil, fmt.Errorf("Check: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	content := map[uint32]map[string]string{}
	left := newChronicle()
	left.clock, left.lastID = c.clock, c.lastID
	for _, cf := range db.ColumnFamilies() {
		found, err := contentOf(cf)
		if err != nil {
			return nil, err
		}
		f := c.families[cf.ID()]
		switch {
		case f == nil && len(found) > 0:
			return nil, fmt.Errorf("family %q, id %d, was never used, and is not empty", cf.Name(), cf.ID())
		case f == nil && c.makings[cf.Name()] == 0:
			return nil, fmt.Errorf("family %q, id %d, was never made", cf.Name(), cf.ID())
		case f == nil:
			f = &familyStory{name: cf.Name(), makeBegan: c.makings[cf.Name()]}
		case f.name != cf.Name():
			return nil, fmt.Errorf("family %q, id %d, was made as %q", cf.Name(), cf.ID(), f.name)
		}
		if f.makeBegan > after {
			return nil, fmt.Errorf("family %q is there before it was made", cf.Name())
		}
		if f.dropFinished != 0 && f.dropFinished <= before {
			return nil, fmt.Errorf("family %q, id %d, was dropped and is there", cf.Name(), cf.ID())
		}
		content[cf.ID()] = found
		left.families[cf.ID()] = &familyStory{name: f.name, makeBegan: 1, made: 1}
	}
	for id, f := range c.families {
		if f.made <= before && (f.dropBegan == 0 || f.dropBegan > after) && content[id] == nil {
			return nil, fmt.Errorf("family %q, id %d, is gone", f.name, id)
		}
	}
	// Which deeds are there, by their markers. Whole or not at all, unless they are in no log.
	want := map[uint32]map[string]string{}
	markers := map[uint32]map[string]bool{}
	for id, found := range content {
		want[id], markers[id] = map[string]string{}, map[string]bool{}
		for key := range found {
			if key[0] == '!' {
				markers[id][key] = true
			}
		}
	}
	latest := &deed{}
	missing := map[*deed]bool{}
	for _, d := range c.deeds {
		there, not := 0, 0
		copied := *d
		copied.edits, copied.acked, copied.safe = nil, 1, 1
		for id := range content {
			if !d.touches(id) {
				continue
			}
			if !markers[id][d.marker()] {
				not++
				continue
			}
			there++
			delete(markers[id], d.marker())
			want[id][d.marker()] = ""
			for _, e := range d.edits {
				if e.family != id {
					continue
				}
				copied.edits = append(copied.edits, e)
				if e.remove {
					delete(want[id], e.key)
				} else {
					want[id][e.key] = e.value
				}
			}
		}
		switch {
		case there > 0 && not > 0 && !d.unlogged:
			return nil, fmt.Errorf("deed %d is there in %d families and missing in %d", d.id, there, not)
		case there > 0 && d.began > after:
			return nil, fmt.Errorf("deed %d is there before it was begun", d.id)
		case not > 0 && d.safe != 0 && d.safe <= before:
			return nil, fmt.Errorf("deed %d was acknowledged and synced (begun %d, acknowledged %d, safe %d, crash between %d and %d) and is lost",
				d.id, d.began, d.acked, d.safe, before, after)
		case not > 0 && process && !d.unlogged && d.acked != 0 && d.acked <= before:
			return nil, fmt.Errorf("deed %d was acknowledged, only the process died, and it is lost", d.id)
		}
		if not > 0 && !d.unlogged {
			missing[d] = true
		}
		if there > 0 {
			if !d.unlogged && d.began > latest.began {
				latest = d
			}
			left.deeds = append(left.deeds, &copied)
		}
	}
	for d := range missing {
		if d.acked != 0 && d.acked < latest.began {
			return nil, fmt.Errorf("deed %d is missing, and deed %d is there, which was begun after it had returned", d.id, latest.id)
		}
	}
	for id, found := range content {
		for m := range markers[id] {
			return nil, fmt.Errorf("family %q holds %q, which nobody wrote", db.familyByID(id).Name(), m)
		}
		if !maps.Equal(found, want[id]) {
			return nil, fmt.Errorf("family %q is not what its markers tell: %s", db.familyByID(id).Name(), difference(found, want[id]))
		}
	}
	return left, nil
}

func difference(got, want map[string]string) string {
	var lines []string
	for k, v := range want {
		if g, ok := got[k]; !ok {
			lines = append(lines, fmt.Sprintf("%q is missing, want %.20q", k, v))
		} else if g != v {
			lines = append(lines, fmt.Sprintf("%q is %.20q, want %.20q", k, g, v))
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			lines = append(lines, fmt.Sprintf("%q is %.20q, want nothing", k, v))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines[:min(len(lines), 5)], "; ")
}

// contentOf reads all of a family, and half of its keys by Get too.
func contentOf(cf *ColumnFamily) (map[string]string, error) {
	found := map[string]string{}
	it := cf.NewIterator(nil)
	for k, v := range it.All() {
		found[string(k)] = string(v)
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return nil, err
	}
	for k, v := range found {
		if len(k)%2 == 0 {
			continue
		}
		got, err := cf.Get([]byte(k), nil)
		if err != nil {
			return nil, fmt.Errorf("Get %q: %w; the iterator shows %.20q", k, err, v)
		}
		if string(got) != v {
			return nil, fmt.Errorf("Get %q: %.20q; the iterator shows %.20q", k, got, v)
		}
	}
	return found, nil
}

// randomEdits makes the edits of a deed by one writer in one to all of the families given.
func randomEdits(rng *rand.Rand, writer int, unlogged bool, families []uint32, size int) []deedEdit {
	var edits []deedEdit
	n := 1
	if rng.IntN(3) == 0 {
		n = 1 + rng.IntN(len(families))
	}
	kind := 'k'
	if unlogged {
		kind = 'u' // keys of their own: what replaces what depends on what came through
	}
	for _, i := range rng.Perm(len(families))[:n] {
		for range 1 + rng.IntN(3) {
			edits = append(edits, deedEdit{
				family: families[i],
				key:    fmt.Sprintf("%c%d/%02d", kind, writer, rng.IntN(30)),
				value:  strings.Repeat("v", rng.IntN(size)+1),
				remove: rng.IntN(4) == 0,
			})
		}
	}
	return edits
}

// longRun says whether the long forms of these tests are asked for.
func longRun() bool { return os.Getenv("ASHLAR_LONG") != "" }

// newSeed is a seed for one run; it is in every message.
func newSeed() uint64 { return rand.Uint64() >> 32 }

// memOptions are those of a small database in memory, in which a hundred writes are many.
func memOptions(fs vfs.FS) *Options {
	return &Options{
		FS: fs,
		ColumnFamilyOptions: ColumnFamilyOptions{
			WriteBufferSize: 64 << 10, TargetFileSizeBase: 32 << 10, MaxBytesForLevelBase: 64 << 10,
			MaxBytesForLevelMultiplier: 4, Level0FileNumCompactionTrigger: 2,
		},
	}
}

// holdingTables has everyone who makes a table wait until the channel is closed: flushes stay under way.
func holdingTables(fs vfs.FS) (*faultfs.FS, chan bool) {
	held, hold := faultfs.Wrap(fs), make(chan bool)
	held.OnCall = func(c faultfs.Call) {
		if c.Op == faultfs.Create && strings.HasSuffix(c.Name, ".sst") {
			<-hold
		}
	}
	return held, hold
}

func openMem(t testing.TB, fs vfs.FS) *DB {
	t.Helper()
	db, err := Open("db", memOptions(fs))
	require.NoError(t, err)
	return db
}

// checkClean fails the test at the first thing that Check finds.
func checkClean(t testing.TB, db *DB) {
	t.Helper()
	for err := range db.Check(context.Background()) {
		require.NoError(t, err)
	}
}

func mustPut(t testing.TB, cf *ColumnFamily, key, value string, o *WriteOptions) {
	t.Helper()
	require.NoError(t, cf.Put([]byte(key), []byte(value), o))
}

// valueOf reads a key; "" stands for none.
func valueOf(t testing.TB, cf *ColumnFamily, key string) string {
	t.Helper()
	v, err := cf.Get([]byte(key), nil)
	if errors.Is(err, ErrNotFound) {
		return ""
	}
	require.NoError(t, err)
	return string(v)
}

// atRest returns when no job runs and the cleaner has nothing to do.
func atRest(db *DB) {
	db.mu.Lock()
	for db.flushes+db.compactions > 0 {
		db.cond.Wait()
	}
	db.mu.Unlock()
	db.waitClean()
}
