package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets this binary be the program that up starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		main()
		return
	}
	os.Exit(m.Run())
}

// freePorts returns the first of some ports that are free.
func freePorts(t *testing.T, count int) int {
	for {
		first := 10000 + rand.IntN(20000)
		free := 0
		for ; free < count; free++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+free))
			if err != nil {
				break
			}
			require.NoError(t, l.Close())
		}
		if free == count {
			return first
		}
	}
}

// TestUpStartsThreeNodesAndSaysHowToTalkToThem does what it prints: a put, and a get; then it ends a node, and all.
func TestUpStartsThreeNodesAndSaysHowToTalkToThem(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	dir := t.TempDir()
	go func() {
		ended <- up(ctx, []string{"-port", fmt.Sprint(freePorts(t, 3)), "-dir", dir}, w, w)
		w.Close()
	}()
	var printed strings.Builder
	lines := bufio.NewScanner(r)
	await := func(pattern string) string {
		for lines.Scan() {
			fmt.Fprintln(&printed, lines.Text())
			if found := regexp.MustCompile(pattern).FindStringSubmatch(lines.Text()); found != nil {
				return found[1]
			}
		}
		t.Fatalf("no line matches %s in:\n%s", pattern, &printed)
		return ""
	}
	url := await(`curl -L -X PUT -d hello (\S+)`)
	await(`(leader\?key=greeting)`)
	req, err := http.NewRequest(http.MethodPut, url, strings.NewReader("hello"))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	resp, err = http.Get(url)
	require.NoError(t, err)
	value, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "hello", string(value))

	pid, err := os.ReadFile(filepath.Join(dir, "2", "pid"))
	require.NoError(t, err)
	var id int
	_, err = fmt.Sscan(string(pid), &id)
	require.NoError(t, err)
	node2, err := os.FindProcess(id)
	require.NoError(t, err)
	require.NoError(t, node2.Kill())
	require.Equal(t, "2", await(`^node (\d) has ended`))
	require.Contains(t, await(`go run \. (node .*)`), "-id 2 ", "how to start it again")

	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	require.NoError(t, <-ended)
	for _, id := range []string{"1", "3"} {
		_, err := os.Stat(filepath.Join(dir, id, "pid"))
		require.ErrorIs(t, err, os.ErrNotExist, "node %s ended in good order", id)
	}
}

func TestWordsThatAreNoCommandAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"no command":             {},
		`no command "upp"`:       {"upp"},
		"1 to 99 nodes":          {"up", "-nodes", "0"},
		"no more words":          {"up", "word"},
		"as many ports":          {"up", "-port", "65535"},
		"flag provided but not ": {"up", "-no-such"},
	} {
		require.ErrorContains(t, run(t.Context(), args, io.Discard, io.Discard), want)
	}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"help"}, &out, io.Discard))
	require.Contains(t, out.String(), "go run . up")
}

func TestLinesOfManyAreNotMixed(t *testing.T) {
	var out bytes.Buffer
	all := &lines{w: &out}
	a, b := &prefixed{out: all, prefix: "a | "}, &prefixed{out: all, prefix: "b | "}
	for _, w := range []struct {
		to   *prefixed
		text string
	}{{a, "on"}, {b, "two\nthr"}, {a, "e\n\n"}, {b, "ee"}} {
		n, err := io.WriteString(w.to, w.text)
		require.NoError(t, err)
		require.Equal(t, len(w.text), n)
	}
	b.flush()
	require.Equal(t, "b | two\na | one\na | \nb | three\n", out.String())
}
