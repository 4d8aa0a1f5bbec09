package etcdraft

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestThreeReplicasApplyTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		for i := range 10 {
			require.Equal(t, uint64(i+1), c.do(g, "add k").Value)
		}
		c.tick(1)
		c.requireEqual(1, 2, 3)
	})
}
