package main

import "sync"

// sizeKind is the distribution of the sizes of values.
type sizeKind uint8

const (
	fixedSize sizeKind = iota
	uniformSize
	normalSize // 99.7 % of the sizes lie between the bounds; others are moved to them
)

// valueShape says what values look like.
type valueShape struct {
	kind     sizeKind
	size     int // of fixedSize
	min, max int // of the others
	ratio    float64
}

// average is what the header prints as the size of a value.
func (s *valueShape) average() int {
	if s.kind == fixedSize {
		return s.size
	}
	return (s.min + s.max) / 2
}

const (
	pieceSize    = 100     // of the text that values are cut from
	textSize     = 1 << 20 // at least
	firstOfASCII = ' '
	ofASCII      = 95 // printable characters
)

// valueMaker cuts values, one behind the other, from a text that it goes through again and again. The text is made of
// pieces of 100 bytes; each is a run of random printable characters, ratio × 100 of them, repeated. So a value
// compresses to about ratio of its size within a piece, and pieces do not compress each other. Every valueMaker of a shape
// has the same text, db_bench's. It belongs to one thread.
type valueMaker struct {
	shape valueShape
	text  []byte
	pos   int
	rand  *mersenne // for sizes
	bell  gaussian  // for sizes
}

// newValueMaker cuts from the text of a shape.
func newValueMaker(shape valueShape, text []byte, seed uint64) *valueMaker {
	return &valueMaker{shape: shape, text: text, rand: newMersenne(seed), bell: newGaussian(uint32(seed))}
}

// makeText makes the text of a shape.
func (s *valueShape) makeText() []byte {
	want := max(textSize, s.longest())
	text := make([]byte, 0, want+pieceSize)
	dice := newLehmer(301)
	raw := make([]byte, max(int(pieceSize*s.ratio), 1))
	for len(text) < want {
		for i := range raw {
			raw[i] = firstOfASCII + byte(dice.Next()%ofASCII)
		}
		end := len(text) + pieceSize
		for len(text) < end {
			text = append(text, raw[:min(len(raw), end-len(text))]...)
		}
	}
	return text
}

// longest is the longest value.
func (s *valueShape) longest() int {
	if s.kind == fixedSize {
		return s.size
	}
	return s.max
}

// texts makes each text once. Threads share them: nobody writes to one.
type texts struct {
	mu   sync.Mutex
	made map[valueShape][]byte
}

func (t *texts) of(shape valueShape) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, ok := t.made[shape]
	if !ok {
		if t.made == nil {
			t.made = map[valueShape][]byte{}
		}
		text = shape.makeText()
		t.made[shape] = text
	}
	return text
}

// Next returns a value of the shape's size. It lives as long as the valueMaker and must not be changed.
func (v *valueMaker) Next() []byte {
	switch s := &v.shape; s.kind {
	case uniformSize:
		return v.Sized(s.min + int(v.rand.Next()%uint64(s.max-s.min+1)))
	case normalSize:
		size := v.bell.Next(float64(s.min+s.max)/2, float64(s.max-s.min)/6)
		return v.Sized(min(max(int(size), s.min), s.max))
	default:
		return v.Sized(s.size)
	}
}

// Sized is Next for a given size, which must not exceed the text.
func (v *valueMaker) Sized(size int) []byte {
	if v.pos+size > len(v.text) {
		v.pos = 0
	}
	v.pos += size
	return v.text[v.pos-size : v.pos]
}
