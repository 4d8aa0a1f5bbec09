package ashlar

// What the texts among the properties count from: Open, or the last ResetStats. Metrics and Statistics go on as they were.

// ResetStats has the properties rocksdb.stats, cfstats, dbstats and cf-write-stall-stats count from zero. As with RocksDB's
// call of that name, Options.Statistics keeps its counts; it has a Reset of its own.
func (d *DB) ResetStats() error {
	if d.closed.Load() {
		return ErrClosed
	}
	d.statsBase.Store(d.Metrics())
	for _, cf := range d.ColumnFamilies() {
		if f, ok := cf.metrics(); ok {
			cf.statsBase.Store(&f)
		}
	}
	return nil
}

// sinceReset returns m with what dbStats shows of it counted from the last ResetStats.
func (d *DB) sinceReset(m *Metrics) *Metrics {
	b := d.statsBase.Load()
	if b == nil {
		return m
	}
	s := *m
	for to, from := range map[*uint64]uint64{
		&s.Writes: b.Writes, &s.KeysWritten: b.KeysWritten, &s.WriteGroups: b.WriteGroups, &s.WALBytes: b.WALBytes,
		&s.WALSyncs: b.WALSyncs, &s.Flushes: b.Flushes, &s.FlushBytes: b.FlushBytes, &s.Compactions: b.Compactions,
		&s.CompactionBytesRead: b.CompactionBytesRead, &s.CompactionBytesWritten: b.CompactionBytesWritten,
		&s.StallMicros: b.StallMicros,
	} {
		*to -= min(from, *to) // a reset may come after m was read
	}
	return &s
}

// sinceReset returns f with what the texts show of it counted from the last ResetStats, which may come after f was read.
func (c *ColumnFamily) sinceReset(f *FamilyMetrics) *FamilyMetrics {
	b := c.statsBase.Load()
	if b == nil {
		return f
	}
	s := *f
	s.Levels = append([]LevelMetrics(nil), f.Levels...)
	for n := range s.Levels {
		s.Levels[n].Hits -= min(b.Levels[n].Hits, s.Levels[n].Hits)
		s.Levels[n].TableReads -= min(b.Levels[n].TableReads, s.Levels[n].TableReads)
		s.Levels[n].FilterUseful -= min(b.Levels[n].FilterUseful, s.Levels[n].FilterUseful)
	}
	w, from := &s.WriteStalls, &b.WriteStalls
	for to, from := range map[*CauseStalls]*CauseStalls{
		&w.MemtableLimit: &from.MemtableLimit, &w.L0FileCountLimit: &from.L0FileCountLimit,
		&w.PendingCompactionBytes: &from.PendingCompactionBytes,
	} {
		to.Delays.Count -= min(from.Delays.Count, to.Delays.Count)
		to.Stops.Count -= min(from.Stops.Count, to.Stops.Count)
	}
	w.L0DelaysWithOngoingCompaction -= min(from.L0DelaysWithOngoingCompaction, w.L0DelaysWithOngoingCompaction)
	w.L0StopsWithOngoingCompaction -= min(from.L0StopsWithOngoingCompaction, w.L0StopsWithOngoingCompaction)
	return &s
}
