package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ashlardb/ashlar/internal/stats"
)

// reporter writes how many operations were done in each interval while a benchmark runs:
//
//	secs_elapsed,interval_qps
//	1,48591
//	2,51034
//
// What is done after the last full interval is not in the file.
type reporter struct {
	done stats.Counter // operations of all threads

	file  io.WriteCloser
	err   error // of file; read after ended is closed
	quit  chan struct{}
	ended chan struct{}
}

// startReporter creates the file.
func startReporter(name string, every time.Duration) (*reporter, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return newReporter(f, every), nil
}

func newReporter(f io.WriteCloser, every time.Duration) *reporter {
	r := &reporter{file: f, quit: make(chan struct{}), ended: make(chan struct{})}
	go r.run(every)
	return r
}

func (r *reporter) run(every time.Duration) {
	defer close(r.ended)
	_, r.err = io.WriteString(r.file, "secs_elapsed,interval_qps\n")
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last uint64
	for elapsed := every; ; elapsed += every {
		select {
		case <-r.quit:
			return
		case <-ticker.C:
		}
		done := r.done.Load()
		if r.err == nil {
			_, r.err = fmt.Fprintf(r.file, "%d,%d\n", int64(elapsed.Seconds()), done-last)
		}
		last = done
	}
}

// stop closes the file and returns what went wrong with it.
func (r *reporter) stop() error {
	close(r.quit)
	<-r.ended
	if err := r.file.Close(); r.err == nil {
		r.err = err
	}
	return r.err
}
