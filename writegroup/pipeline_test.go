package writegroup

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// held is a pipelined queue in which the inserts of some works wait. To be made in a bubble.
type held struct {
	*syncing
	q     *Queue[*work]
	holds map[int]chan error // by the work's name
	begun []int
}

func newHeld(names ...int) *held {
	s, q := newSyncing()
	q.Pipelined = true
	h := &held{syncing: s, q: q, holds: map[int]chan error{}}
	for _, name := range names {
		h.holds[name] = make(chan error)
	}
	s.spread = func(int) bool { return false }
	s.insert = func(w *work) error {
		h.begun = append(h.begun, w.name)
		if hold := h.holds[w.name]; hold != nil {
			return <-hold
		}
		return nil
	}
	return h
}

func (h *held) release(name int, err error) {
	hold := h.holds[name]
	delete(h.holds, name)
	hold <- err
	synctest.Wait()
}

func TestOneGroupIsLoggedWhileTheOneBeforeIsInserted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(0, 2)
		errs := committing(h.q, false, false, false, false)
		require.Equal(t, "[[0] [1] [2] [3]]", fmt.Sprint(h.groups), "all are logged")
		require.Equal(t, []int{0}, h.begun, "and one inserts at a time")
		require.Empty(t, h.published)
		h.release(0, nil)
		require.Equal(t, []int{0, 1, 2}, h.begun)
		require.Equal(t, []int{1, 2}, h.published)
		require.NoError(t, errs[1])
		require.EqualError(t, errs[2], "not yet")
		h.release(2, nil)
		require.Equal(t, []int{1, 2, 3, 4}, h.published)
		require.Equal(t, make([]error, 4), errs)
		require.Nil(t, h.q.line.oldest)
	})
}

func TestThoseWhoComeWhileTheLogIsWrittenFormOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(0)
		gate := make(chan bool)
		h.log = func(g *Group[*work]) error {
			if g.Works()[0].name == 1 {
				<-gate
			}
			return nil
		}
		errs := committing(h.q, false, false, false, false, false)
		close(gate)
		synctest.Wait()
		require.Equal(t, "[[0] [1] [2 3 4]]", fmt.Sprint(h.groups))
		require.Empty(t, h.published)
		h.release(0, nil)
		require.Equal(t, make([]error, 5), errs)
	})
}

func TestAGroupThatFailsInInsertFailsThoseLoggedBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(1)
		errs := committing(h.q, false, false, false, false)
		broken := errors.New("broken")
		h.release(1, broken)
		require.Equal(t, []int{1, -2, -3, -4}, h.published, "what comes behind may not be seen without it")
		require.Equal(t, []error{nil, broken, broken, broken}, errs)
		require.NoError(t, h.q.Commit(&work{name: 9}), "Prepare let it in")
	})
}

func TestAGroupThatFailsInLogIsPublishedInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(0)
		broken := errors.New("broken")
		h.log = func(g *Group[*work]) error {
			if g.Works()[0].name == 1 {
				return broken
			}
			return nil
		}
		errs := committing(h.q, false, false, false)
		require.Empty(t, h.published)
		h.release(0, nil)
		require.Equal(t, []int{1, -2, 3}, h.published)
		require.Equal(t, []error{nil, broken, nil}, errs)
		require.Equal(t, []int{0, 2}, h.begun)
	})
}

func TestLogAndPrepareMayWaitForTheInsertsBefore(t *testing.T) {
	for _, stage := range []string{"log", "prepare", "drain", "exclusive"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHeld(0)
			errs := committing(h.q, false, false)
			var seen []int
			look := func() { seen = append([]int{0}, h.published...) }
			switch stage {
			case "log":
				h.log = func(*Group[*work]) error { h.q.AwaitInserts(); look(); return nil }
			case "prepare":
				h.prepare = func(*work) error { h.q.AwaitInserts(); look(); return nil }
			case "drain":
				h.prepare = func(*work) error { h.q.Drain(); look(); return nil }
			case "exclusive":
				go h.q.Exclusive(func() error { look(); return nil })
				synctest.Wait()
			}
			late := committing(h.q, false)
			require.Nil(t, seen)
			h.release(0, nil)
			require.Equal(t, []int{0, 1, 2}, seen)
			require.Equal(t, make([]error, 3), append(errs, late...))
		})
	}
}

// A sync that is under way holds up neither the log nor the inserts of later groups.
func TestSyncsGoOnBesideThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(2)
		errs := committing(h.q, true, false, true, false)
		require.Equal(t, "[[0] [1] [2] [3]]", fmt.Sprint(h.groups))
		require.Equal(t, []int{0, 1, 2}, h.begun)
		h.gate <- nil
		synctest.Wait()
		require.Equal(t, []int{1, 2}, h.published)
		h.release(2, nil)
		require.Equal(t, []int{0, 1, 2, 3}, h.begun)
		require.Equal(t, []int{1, 2}, h.published)
		h.gate <- nil
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3, 4}, h.published)
		require.Equal(t, make([]error, 4), errs)
	})
}
