package kv

// Entry is an internal key and its value.
type Entry struct {
	Key   Key
	Value []byte
}

// An Iterator walks internal keys in order. A positioning method returns the entry it stands on, or nil at an end or
// on error; Err tells which.
//
//   - The entry and its slices live until the next positioning call or Close.
//   - Next after the last entry returns nil and leaves the iterator behind the end: from there Prev returns the last
//     entry and Next returns nil again. Prev before the first entry mirrors that.
//   - Direction may change at any entry: Next then Prev returns to the same entry.
//   - Before the first positioning call, Next and Prev must not be called.
//   - After an error every Next and Prev returns nil and Err keeps the error; a First, Last or Seek clears it and
//     tries again.
//   - prefix, given to SeekGE, is nil or a prefix of k.User of which the caller wants no key without it: the iterator
//     may then skip, by filter, what cannot hold the prefix and may end (return nil) early. Next after such a seek
//     keeps that promise only; Prev must not be called after it.
//   - One goroutine at a time. Close is called once and returns Err.
type Iterator interface {
	First() *Entry
	Last() *Entry
	// SeekGE positions at the first entry with key >= k.
	SeekGE(k Key, prefix []byte) *Entry
	// SeekLT positions at the last entry with key < k.
	SeekLT(k Key) *Entry
	Next() *Entry
	Prev() *Entry
	Err() error
	Close() error
}

// Empty is an iterator without entries. Error, if set, is what Err and Close return.
type Empty struct{ Error error }

func (e Empty) First() *Entry             { return nil }
func (e Empty) Last() *Entry              { return nil }
func (e Empty) SeekGE(Key, []byte) *Entry { return nil }
func (e Empty) SeekLT(Key) *Entry         { return nil }
func (e Empty) Next() *Entry              { return nil }
func (e Empty) Prev() *Entry              { return nil }
func (e Empty) Err() error                { return e.Error }
func (e Empty) Close() error              { return e.Error }
