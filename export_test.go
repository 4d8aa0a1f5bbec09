package ashlar

import "strings"

// Levels shows the files of each level of a family.
func (c *ColumnFamily) Levels() string {
	sv := c.tree.Acquire()
	if sv == nil {
		return c.unusable().Error()
	}
	defer sv.Release()
	return strings.TrimSuffix(sv.Version().DebugString(), "\n")
}
