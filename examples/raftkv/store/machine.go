package store

import (
	"bytes"
	"cmp"
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// A Machine reads its own writes although they are not yet in the database.
//
//  1. Nobody else writes the region's keys, so what the machine last wrote of a key is what the key is.
//  2. recent has every key that was written since the batch was last known to be in the database, and so answers for it
//     without a write of the batch. It has no values: before a CAS, and once it holds recentMax bytes, Hint asks for that
//     write, and Apply begins with an empty one.
//  3. Every check of a command comes before its first write: a command that is refused leaves nothing in recent.
//  4. sessions is the session table as the batch leaves it.

// MaxSessions is how many clients a region remembers.
const MaxSessions = 4096

// recentMax is how many bytes of keys may be in recent.
const recentMax = 1 << 20

// Machine applies a region's commands.
type Machine struct {
	region      raftapply.RegionID
	families    Families
	recent      map[string]keyState
	recentBytes int
	sessions    map[uint64]*list.Element // of *session
	bySeen      *list.List               // the client that wrote last is in front
	maxSessions int
}

// keyState is what the families say of a key. 0 is no value and no lock.
type keyState struct{ seen, lock uint64 }

var _ raftapply.StateMachine = (*Machine)(nil)

// NewMachine returns the machine of a region. It reads the session table when the first entry comes.
func NewMachine(f Families, id raftapply.RegionID) *Machine {
	return &Machine{region: id, families: f, maxSessions: MaxSessions}
}

// Forget makes the machine read what it knows from the database again: for when a snapshot has taken the region's place.
func (m *Machine) Forget() { m.sessions = nil }

// load reads the session table. The batch holds nothing of this region.
func (m *Machine) load() error {
	sessions, bySeen := map[uint64]*list.Element{}, list.New()
	var found []*session
	span := m.families.Spans(m.region)[3]
	it := span.Family.Range(span.Begin, span.End, nil)
	defer it.Close()
	for key, value := range it.All() {
		s, err := decodeSession(binary.BigEndian.Uint64(key[len(key)-8:]), value)
		if err != nil {
			return fmt.Errorf("region %d: %w", m.region, err)
		}
		found = append(found, s)
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("region %d: sessions: %w", m.region, err)
	}
	slices.SortFunc(found, func(a, b *session) int { return cmp.Compare(a.index, b.index) })
	for _, s := range found {
		sessions[s.client] = bySeen.PushFront(s)
	}
	m.sessions, m.bySeen = sessions, bySeen
	m.recent, m.recentBytes = map[string]keyState{}, 0
	return nil
}

// Hint asks for a write of the batch before a CAS, and when recent is full.
func (m *Machine) Hint(e raftapply.Entry) raftapply.Hint {
	if m.recentBytes >= recentMax || e.Kind == raftapply.Normal && len(e.Data) > 1 && Kind(e.Data[1]) == CAS {
		return raftapply.FlushBefore
	}
	return 0
}

// Apply does a command. The Result's Value is an Outcome.
func (m *Machine) Apply(w raftapply.Writer, e raftapply.Entry) (raftapply.Result, error) {
	if e.Kind == raftapply.ConfChange {
		return raftapply.Result{}, nil
	}
	if m.Hint(e) == raftapply.FlushBefore { // all of it was written just now
		clear(m.recent)
		m.recentBytes = 0
	}
	if m.sessions == nil {
		if err := m.load(); err != nil {
			return raftapply.Result{}, err
		}
	}
	c, err := DecodeCommand(e.Data)
	if err != nil {
		return raftapply.Result{Err: err}, nil
	}
	outcome, err := m.once(w, e.Index, c)
	if err != nil {
		return raftapply.Result{}, err
	}
	return raftapply.Result{Value: outcome}, nil
}

// once does a command unless its client's session says that it was done.
func (m *Machine) once(w raftapply.Writer, index uint64, c *Command) (Outcome, error) {
	if c.Client == 0 {
		return m.do(w, index, c)
	}
	known := m.sessions[c.Client]
	if known != nil {
		switch s := known.Value.(*session); {
		case c.Seq == s.seq:
			return s.outcome, nil
		case c.Seq < s.seq:
			return Outcome{Status: StaleSeq}, nil
		}
	}
	outcome, err := m.do(w, index, c)
	if err != nil {
		return Outcome{}, err
	}
	s := &session{client: c.Client, seq: c.Seq, index: index, outcome: outcome}
	if err := w.Put(m.families.Raft, sessionKey(m.region, c.Client), s.encode()); err != nil {
		return Outcome{}, err
	}
	if known != nil {
		known.Value = s
		m.bySeen.MoveToFront(known)
		return outcome, nil
	}
	m.sessions[c.Client] = m.bySeen.PushFront(s)
	if m.bySeen.Len() > m.maxSessions {
		oldest := m.bySeen.Remove(m.bySeen.Back()).(*session)
		delete(m.sessions, oldest.client)
		return outcome, w.Delete(m.families.Raft, sessionKey(m.region, oldest.client))
	}
	return outcome, nil
}

// do does a command, or finds a reason that every replica finds.
func (m *Machine) do(w raftapply.Writer, index uint64, c *Command) (Outcome, error) {
	for _, op := range c.Ops {
		s, err := m.state(dataKey(m.region, op.Key))
		if err != nil {
			return Outcome{}, err
		}
		switch {
		case c.Kind == Commit && s.lock != c.Start && s.seen != c.Start, // seen: committed before
			c.Kind == Rollback && s.lock != c.Start && s.lock != 0,
			c.Kind == Rollback && s.seen == c.Start:
			return Outcome{Status: NotLocked}, nil
		case c.Kind < Commit && s.lock != 0:
			return Outcome{Locked, s.lock}, nil
		}
	}
	if c.Kind == CAS {
		value, err := Get(m.families, m.region, c.Ops[0].Key, nil)
		if err != nil && !errors.Is(err, ashlar.ErrNotFound) {
			return Outcome{}, err
		}
		if (value == nil) != (c.Old == nil) || !bytes.Equal(value, c.Old) {
			return Outcome{Status: Mismatch}, nil
		}
	}
	for _, op := range c.Ops {
		if err := m.one(w, index, c, op); err != nil {
			return Outcome{}, err
		}
	}
	if c.Kind == Prewrite {
		return Outcome{Done, index}, nil
	}
	return Outcome{Status: Done}, nil
}

// one does a command's part for one of its keys, all checks being made.
func (m *Machine) one(w raftapply.Writer, index uint64, c *Command, op Op) error {
	key := dataKey(m.region, op.Key)
	s, err := m.state(key)
	if err != nil {
		return err
	}
	f, was := m.families, s.seen
	var errs [4]error
	switch {
	case c.Kind == Prewrite:
		errs[0] = w.Put(f.Default, valueKey(key, index), op.Value)
		errs[1] = w.Put(f.Lock, key, encodeStart(index))
		was, s.lock = 0, index
	case c.Kind == Rollback:
		if s.lock == 0 {
			return nil
		}
		errs[0] = w.Delete(f.Default, valueKey(key, s.lock))
		errs[1] = w.Delete(f.Lock, key)
		was, s.lock = 0, 0
	case c.Kind == Commit:
		if s.lock == 0 || s.seen == c.Start {
			return nil
		}
		errs[0] = w.Put(f.Write, key, encodeStart(c.Start))
		errs[1] = w.Delete(f.Lock, key)
		s.seen, s.lock = c.Start, 0
	case op.Delete:
		if s.seen == 0 {
			return nil
		}
		errs[0] = w.Delete(f.Write, key)
		s.seen = 0
	default:
		errs[0] = w.Put(f.Default, valueKey(key, index), op.Value)
		errs[1] = w.Put(f.Write, key, encodeStart(index))
		s.seen = index
	}
	if was != 0 && was != s.seen {
		errs[2] = w.Delete(f.Default, valueKey(key, was))
	}
	m.recentBytes += len(key)
	m.recent[string(key)] = s
	return errors.Join(errs[:]...)
}

// state returns what a key is now.
func (m *Machine) state(key []byte) (keyState, error) {
	if s, ok := m.recent[string(key)]; ok {
		return s, nil
	}
	seen, err := getStart(m.families.Write, key, nil)
	if err != nil {
		return keyState{}, err
	}
	lock, err := getStart(m.families.Lock, key, nil)
	return keyState{seen, lock}, err
}
