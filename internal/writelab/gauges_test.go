package writelab

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/writegroup"
)

func TestGaugesSplitAGroupIntoItsSteps(t *testing.T) {
	var g Gauges
	g.Add(&writegroup.Times{
		Elected: 10, Prepared: 11, Gathered: 13, Logged: 17, Inserted: 25, Published: 41, HandedOver: 73, Told: 137,
		Members: 3, Stride: 1,
	})
	starts := make([]time.Duration, 20)
	for i := range starts {
		starts[i] = time.Duration(100 + i)
	}
	g.Add(&writegroup.Times{
		Handed: 1, Elected: 3, Prepared: 4, Gathered: 5, Logged: 100, Launched: 200, Inserted: 150, Published: 300,
		HandedOver: 301, Told: 302, Members: 20, Stride: 4, Starts: starts,
	})
	want := []string{
		"alone.members P50 : 3", "alone.prepare.nanos P50 : 1", "alone.gather.nanos P50 : 2", "alone.log.nanos P50 : 4",
		"alone.insert.nanos P50 : 8", "alone.publish.nanos P50 : 16", "alone.handover.nanos P50 : 32",
		"alone.path.nanos P50 : 63", "alone.tell.nanos P50 : 64",
		"spread.members P50 : 20", "spread.hop.nanos P50 : 2", "spread.prepare.nanos P50 : 1", "spread.gather.nanos P50 : 1",
		"spread.log.nanos P50 : 95", "spread.launch.nanos P50 : 100", "spread.insert.nanos P50 : 0",
		"spread.publish.nanos P50 : 150", "spread.handover.nanos P50 : 1", "spread.path.nanos P50 : 298",
		"spread.tell.nanos P50 : 1",
		"spread.skew.leader.nanos P50 : 0", "spread.skew.helper.nanos P50 : 2", "spread.skew.called.nanos P50 : 11",
		"spread.skew.last.nanos P50 : 19",
	}
	lines := strings.Split(strings.TrimSpace(g.String()), "\n")
	require.Len(t, lines, len(want))
	for i, line := range lines {
		name, _, _ := strings.Cut(want[i], " ")
		require.True(t, strings.HasPrefix(line, "ashlar.write."+name+" "), line)
		if name != "spread.skew.helper.nanos" && name != "spread.skew.called.nanos" { // those have more values than one
			require.True(t, strings.HasPrefix(line, "ashlar.write."+want[i]+"."), line)
		}
	}
	require.Contains(t, lines[21], "COUNT : 3 SUM : 6")
	require.Contains(t, lines[22], "COUNT : 16 SUM : 184")
	mean, groups := g.Critical()
	require.Equal(t, time.Duration((63+298)/2), mean)
	require.EqualValues(t, 2, groups)
}

// What a sync takes is not what the next group waits for.
func TestAGroupThatWaitedIsPublishedOffTheCriticalPath(t *testing.T) {
	var g Gauges
	g.Add(&writegroup.Times{
		Elected: 10, Prepared: 11, Gathered: 12, Logged: 13, Inserted: 14, HandedOver: 18, Published: 34, Told: 66,
		Waited: true, Members: 2, Stride: 1,
	})
	lines := g.String()
	for _, want := range []string{"handover.nanos P50 : 4", "path.nanos P50 : 8", "settle.nanos P50 : 16", "tell.nanos P50 : 32"} {
		require.Contains(t, lines, "ashlar.write.alone."+want+".")
	}
	require.NotContains(t, lines, "publish")
}

func TestEmptyGaugesPrintNothing(t *testing.T) {
	var g Gauges
	require.Empty(t, g.String())
	mean, groups := g.Critical()
	require.Zero(t, mean)
	require.Zero(t, groups)
}
