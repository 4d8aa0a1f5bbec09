package lookup

// Batch is many Gets that go down the tree together.
//
//  1. Open are those that are not decided, in order of their keys; of equal keys each has its own. Who walks drops from it
//     what Finish or Fail was called for.
//  2. Finish or Fail is called once for each, as soon as it is decided: what it pins can be let go of then.
type Batch struct {
	Open []*Get
	// Done is told of each Get that is decided. It uses and releases it; with an error it has no value.
	Done func(*Get, error)
}

// Finish is for a Get that knows its answer, or for which nothing is left to look at.
func (b *Batch) Finish(g *Get) { b.Done(g, nil) }

// Fail is for a Get that met an error.
func (b *Batch) Fail(g *Get, err error) {
	g.State = Failed
	b.Done(g, err)
}

// Sweep returns those of gets that are still open, in the same array.
func Sweep(gets []*Get) []*Get {
	open := gets[:0]
	for _, g := range gets {
		if g.State == Pending {
			open = append(open, g)
		}
	}
	return open
}
