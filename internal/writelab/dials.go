package writelab

import "github.com/ashlardb/ashlar/writegroup"

// Dials are what can be varied in the write path. A zero value leaves it as it is.
type Dials struct {
	// Wake says who wakes whom.
	Wake writegroup.Wake
	// Yields is how often a waiting writer lets others run before it sleeps; below 0, never.
	Yields int
	// SpreadFrom is the size from which the members of a group insert for themselves, on any number of processors; -1:
	// they never do.
	SpreadFrom int
	// Gauges, if set, are told of each group.
	Gauges *Gauges
}

// Set gives dials to an *ashlar.Options. Package ashlar sets it.
var Set func(options any, d Dials)
