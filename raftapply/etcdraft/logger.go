package etcdraft

import (
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
)

// raftLogger is raft's logger over slog. What raft calls information comes with every election and every lost message: it
// is for debugging here. raft panics where it cannot go on; the group catches that and stops. Nothing ends the process.
type raftLogger struct{ to *slog.Logger }

var _ raft.Logger = raftLogger{}

func (l raftLogger) Debug(v ...any)              { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(f string, v ...any)   { l.say(slog.LevelDebug, f, v) }
func (l raftLogger) Info(v ...any)               { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Infof(f string, v ...any)    { l.say(slog.LevelDebug, f, v) }
func (l raftLogger) Warning(v ...any)            { l.to.Warn(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(f string, v ...any) { l.say(slog.LevelWarn, f, v) }
func (l raftLogger) Error(v ...any)              { l.to.Error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(f string, v ...any)   { l.say(slog.LevelError, f, v) }
func (l raftLogger) Fatal(v ...any)              { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(f string, v ...any)   { panic(fmt.Sprintf(f, v...)) }
func (l raftLogger) Panic(v ...any)              { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(f string, v ...any)   { panic(fmt.Sprintf(f, v...)) }

func (l raftLogger) say(level slog.Level, f string, v []any) {
	if l.to.Enabled(nil, level) {
		l.to.Log(nil, level, fmt.Sprintf(f, v...))
	}
}
