package peer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/ashlardb/ashlar/raftapply"
)

// What a link has queued, at most.
const (
	maxQueued      = 4096
	maxQueuedBytes = 64 << 20
)

// How long a link waits before it connects again. What comes meanwhile is lost.
const (
	minPause = 20 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// link is the connection to one node: a queue, and a goroutine that writes it into a request's body.
type link struct {
	t     *Transport
	to    uint64
	queue chan queued
	bytes atomic.Int64 // in queue
}

type queued struct {
	region raftapply.RegionID
	frame  []byte
}

func newLink(t *Transport, to uint64) *link {
	return &link{t: t, to: to, queue: make(chan queued, maxQueued)}
}

// send queues a frame, or loses it.
func (l *link) send(region raftapply.RegionID, frame []byte) {
	if l.bytes.Add(int64(len(frame))) <= maxQueuedBytes {
		select {
		case l.queue <- queued{region, frame}:
			return
		default:
		}
	}
	l.bytes.Add(-int64(len(frame)))
	l.lost(region)
}

func (l *link) lost(region raftapply.RegionID) {
	if r := l.t.attached(); r != nil {
		r.Unreachable(region, l.to)
	}
}

// run connects when there is something to say, again and again, until the transport is closed.
func (l *link) run() {
	pause := minPause
	for {
		select {
		case <-l.t.ctx.Done():
			return
		case q := <-l.queue:
			started := time.Now()
			err := l.stream(q)
			if l.t.ctx.Err() != nil {
				return
			}
			l.t.log.Info("connection lost", "to", l.to, "err", err)
			if time.Since(started) > time.Second {
				pause = minPause
			}
			l.drop(q.region, pause)
			pause = min(2*pause, maxPause)
		}
	}
}

// drop loses what comes within a pause.
func (l *link) drop(region raftapply.RegionID, pause time.Duration) {
	regions := map[raftapply.RegionID]bool{region: true}
	defer func() {
		for r := range regions {
			l.lost(r)
		}
	}()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-l.t.ctx.Done():
			return
		case <-timer.C:
			return
		case q := <-l.queue:
			l.bytes.Add(-int64(len(q.frame)))
			regions[q.region] = true
		}
	}
}

// stream sends first, and then what is queued, until the connection breaks. Frames that wait for each other go out together.
func (l *link) stream(first queued) error {
	ctx, cancel := context.WithCancel(l.t.ctx)
	body, pipe := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := l.t.post(ctx, l.to, "/raft/stream", body)
		if err == nil {
			err = fmt.Errorf("node %d ended it", l.to)
		}
		body.CloseWithError(err)
		ended <- err
	}()
	var err error
	w := bufio.NewWriterSize(pipe, 64<<10)
	q := first
	for err == nil {
		l.bytes.Add(-int64(len(q.frame)))
		if _, err = w.Write(q.frame); err != nil {
			break
		}
		if len(l.queue) == 0 {
			if err = w.Flush(); err != nil {
				break
			}
		}
		select {
		case q = <-l.queue:
		case err = <-ended:
			ended <- err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	pipe.CloseWithError(err)
	cancel()
	<-ended
	return err
}
