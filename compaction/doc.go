// Package compaction decides what to compact, and does it.
//
// A plan is data, a job is an action. A picker looks at a version, that is, at which files are on which level, and at what
// is running already, and returns a Plan: these files, into that level, for this reason. Picking changes nothing, so it
// is tested with tables of versions and plans. A job, Run, reads the plan's files and writes new ones through an Env
// which opens and creates tables; it knows no manifest and no lock. What becomes of the result is its caller's decision:
//
//	prepare (locked)     p := picker.Pick(version, busy); busy.Start(p); snapshots captured
//	run     (unlocked)   result, err := compaction.Run(ctx, p, env)
//	install (locked)     versions.Apply(result.Edit(p)); busy.Done(p)
//
// A flush is a job without a plan: RunFlush makes one table of level 0 from iterators over memtables by the same rules.
// A trivial move is a plan with nothing to run.
//
//	leveled.go    which files: by score, by overlap, with clean cuts, beside running jobs
//	levels.go     what size the levels should have, how far they are from it, how much work that means
//	plan.go       Plan, and Busy: what running jobs hold
//	iterator.go   which versions of a key survive
//	tombstones.go which range deletes survive, and which table they go to
//	output.go     where a table ends and the next one begins
//	job.go        reading, writing, and what to do when that fails
//
// The rules follow RocksDB's leveled style (11.x): dynamic level sizes, merging inside level 0 while the way down is
// taken, the file with the least overlap first, tables cut where the files of the next level are. Different are: a table
// never holds a part of a user key's versions (RocksDB may split them, so inputs are still cut clean); the order of
// files of equal rank comes from the version alone, without a cursor kept beside it; a SingleDelete above a Delete is no
// error; sizes are not compensated for point deletions.
//
// Why tombstones do not lose what they hide: a Delete is dropped only when no level below the output has a file over its
// key, and older files on the levels in between are among the inputs. Level 0 is no such level, for older files lie
// beside the output there; plans into level 0 never count as bottommost.
//
// Pickers may be used by many goroutines. Busy is guarded by its user. A job belongs to one goroutine.
package compaction
