package ashlar

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// floors says how high each package stands. A package imports packages of lower floors only, so that each can be read,
// tested and explained without those above it.
var floors = map[string]int{
	// The ground: words of the formats, and what stands on the standard library alone.
	"internal/kv": 1, "internal/enc": 1, "internal/corrupt": 1, "internal/invariants": 1, "internal/xxh3": 1,
	"internal/fname": 1, "internal/checksum": 1, "internal/stats": 1, "vfs": 1, "writegroup": 1,
	// Encodings, memory, and merging.
	"internal/writelab": 2, "internal/offheap": 2, "internal/batch": 2, "internal/compress": 2, "internal/iterator": 2, "filter": 2, "vfs/faultfs": 2,
	"sstable/block": 2, "internal/merge": 2, "internal/tombstone": 2, "internal/txnbridge": 2,
	// The cache, and the log.
	"internal/cache": 3, "wal": 3,
	// One read on its way, and what the manifest says.
	"internal/lookup": 4, "manifest": 4,
	// Memtables and tables: siblings.
	"memtable": 5, "sstable": 5,
	// A tree, and what keeps it in shape: siblings.
	"lsm": 6, "compaction": 6,
	// The conductor, and its users.
	".": 7, "txn": 8, "raftapply": 8, "raftapply/kvsm": 9, "cmd/dbbench": 10, "cmd/hitsbench": 10,
	// It runs dbbench, as a program.
	"cmd/wakebench": 1,
	// A model, which runs the queue beside it, and its command.
	"internal/groupsim": 2, "cmd/groupsim": 8,
	// For tests only.
	"internal/model": 1, "internal/script": 1, "internal/iterator/itertest": 2, "internal/metamorphic": 8,
}

// testOnly are the packages that no package but those for tests may import.
var testOnly = map[string]bool{"internal/model": true, "internal/script": true, "internal/iterator/itertest": true, "internal/metamorphic": true}

func TestImportsGoDown(t *testing.T) {
	const module = "github.com/ashlardb/ashlar"
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() && name != "." {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return fs.SkipDir // a module of its own
			}
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		pkg := path.Dir(filepath.ToSlash(name))
		floor, ok := floors[pkg]
		require.True(t, ok, "package %s has no floor", pkg)
		seen[pkg] = true
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			in := "."
			if imported != module {
				var own bool
				if in, own = strings.CutPrefix(imported, module+"/"); !own {
					require.NotEqual(t, "C", imported, "%s: pure Go", name)
					if pkg == "writegroup" {
						require.NotContains(t, imported, ".", "%s: the standard library only", name)
					}
					continue
				}
			}
			require.Less(t, floors[in], floor, "%s imports %s, which does not stand below it", name, in)
			require.True(t, !testOnly[in] || testOnly[pkg], "%s imports %s, which is for tests", name, in)
		}
		return nil
	})
	require.NoError(t, err)
	for pkg := range floors {
		require.True(t, seen[pkg], "there is no package %s any more", pkg)
	}
}
