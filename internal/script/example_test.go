package script_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ashlardb/ashlar/internal/script"
)

// printer stands for the *testing.T of a test.
type printer struct{ testing.TB }

func (printer) Helper() {}
func (printer) Errorf(_ string, args ...any) {
	fmt.Printf("line %d: %s", args[1:]...)
}

// A map, told as a play.
func ExampleRun() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "map.txt")
	os.WriteFile(path, []byte(`
put a "one apple"
get a
----
one apple

get b
----
two bananas
`), 0o644)

	m := map[string]string{}
	script.Run(printer{}, path, func(cmd string, args []string, _ string) string {
		if cmd == "put" {
			m[args[0]] = args[1]
			return ""
		}
		if v, ok := m[args[0]]; ok {
			return v
		}
		return "not found"
	})
	// Output:
	// line 7: got
	// not found
	// want
	// two bananas
}
