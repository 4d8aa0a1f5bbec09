package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ashlardb/ashlar"
)

// The actions, and compact, which is one with a result line.

func (b *bench) flush() error {
	if err := b.db.Flush(context.Background(), nil, b.families.made()...); err != nil {
		return err
	}
	fmt.Fprintln(b.stdout, "flush memtable")
	return nil
}

func (b *bench) compactAll() error {
	for _, cf := range b.families.made() {
		if err := cf.CompactRange(context.Background(), nil, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// compact leaves nothing uncompacted, whatever has been done before.
func compact(t *thread) error {
	for _, cf := range t.families.made() {
		if err := cf.CompactRange(context.Background(), nil, nil, &ashlar.CompactRangeOptions{ForceBottommost: true}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) waitForCompaction() error {
	fmt.Fprintf(b.stdout, "waitforcompaction(%s): started\n", b.cfg.db)
	if err := b.db.WaitForCompact(context.Background()); err != nil {
		return err
	}
	fmt.Fprintf(b.stdout, "waitforcompaction(%s): finished\n", b.cfg.db)
	return nil
}

// property returns an action that prints properties of the default family; with more than one, each behind its name.
func property(names ...string) func(*bench) error {
	return func(b *bench) error {
		var s strings.Builder
		for _, name := range names {
			v, ok := b.db.Property(name)
			if !ok {
				v = "(failed)"
			}
			if len(names) > 1 {
				v = name + ": " + v + "\n"
			}
			s.WriteString(v)
		}
		fmt.Fprintf(b.stdout, "\n%s\n", &s)
		return nil
	}
}

// check walks the whole database.
func (b *bench) check() error {
	var errs []error
	for err := range b.db.Check(context.Background()) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// verify compares with another database: first what gets find of its keys, then what a walk finds, key by key.
func (b *bench) verify() (err error) {
	o := b.cfg.options()
	o.FS, o.ErrorIfMissing, o.WALDir = b.fs, true, ""
	truth, err := ashlar.Open(b.cfg.truthDB, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, truth.Close()) }()
	ours, theirs := b.db.NewIterator(nil), truth.NewIterator(nil)
	defer func() { err = errors.Join(err, ours.Close(), theirs.Close()) }()
	fmt.Fprintln(b.stderr, "Verifying db >= truth_db with ::Get...")
	for key, want := range theirs.All() {
		got, err := b.db.Get(key, nil)
		if err != nil {
			return fmt.Errorf("key %x of %s: %w", key, b.cfg.truthDB, err)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("key %x is %x, want %x", key, got, want)
		}
	}
	fmt.Fprintln(b.stderr, "Verifying db == truth_db...")
	ok, more := ours.SeekToFirst(), theirs.SeekToFirst()
	for ok && more {
		if !bytes.Equal(ours.Key(), theirs.Key()) || !bytes.Equal(ours.Value(), theirs.Value()) {
			return fmt.Errorf("key %x is %x, where %s has %x: %x", ours.Key(), ours.Value(), b.cfg.truthDB, theirs.Key(), theirs.Value())
		}
		ok, more = ours.Next(), theirs.Next()
	}
	if ok {
		return fmt.Errorf("key %x is not in %s", ours.Key(), b.cfg.truthDB)
	}
	if more {
		return fmt.Errorf("key %x of %s is not there", theirs.Key(), b.cfg.truthDB)
	}
	fmt.Fprintln(b.stderr, "...Verified")
	return nil
}
