// Package writelab is the bench on which the write path is measured: dials that users of the library have no use for, and
// gauges that cost more than the library may.
//
//	dbbench --write_wake, … ──> Dials ──> Options (a field that users do not see) ──> writegroup.Queue
//	dbbench --write_path_stats <── Gauges.String <── Gauges.Add <── Queue.Trace
//
// The dials get into a database through Set, which package ashlar puts here when it is loaded, because Go has no friends:
// an exported field of Options would be seen by everyone, a global variable would be shared by all databases of a
// process. Set works on one Options, before Open.
//
// # Thread safety
//
// Gauges may be used by many goroutines at once. Dials do not change once they are set.
package writelab
