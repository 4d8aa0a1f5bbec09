package raftapply

// fifo is a queue in a slice that is used again. Its zero value is empty.
type fifo[T any] struct {
	items []T
	head  int // items before it are taken, and zero
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(v T) {
	if len(f.items) == cap(f.items) && f.head >= len(f.items)/2 && f.head > 0 {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

// front returns the first one, which there must be; it lives until the next change.
func (f *fifo[T]) front() *T { return &f.items[f.head] }

func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.head]
	f.items[f.head] = zero
	if f.head++; f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return v
}

// toFront moves the i-th to the front; those before it keep their order.
func (f *fifo[T]) toFront(i int) {
	q := f.items[f.head:]
	v := q[i]
	copy(q[1:i+1], q[:i])
	q[0] = v
}
