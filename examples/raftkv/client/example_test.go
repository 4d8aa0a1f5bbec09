package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/ashlardb/ashlar/examples/raftkv/client"
	"github.com/ashlardb/ashlar/examples/raftkv/node"
	"github.com/ashlardb/ashlar/vfs"
)

func Example() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	addr := l.Addr().String()
	n, err := node.Open(node.Options{
		ID: 1, Dir: "db", Nodes: map[uint64]string{1: addr}, Listener: l, FS: vfs.NewMem(), Tick: 5 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		panic(err)
	}
	defer n.Close(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := client.New([]string{addr})
	defer c.Close()
	fmt.Println(c.Put(ctx, "greeting", "hello"))
	hello, hi := "hello", "hi"
	fmt.Println(c.CAS(ctx, "greeting", &hello, &hi))
	fmt.Println(c.Get(ctx, "greeting"))
	fmt.Println(c.Delete(ctx, "greeting"))
	_, err = c.Get(ctx, "greeting")
	fmt.Println(errors.Is(err, client.ErrNotFound))

	start, err := c.Prewrite(ctx, map[string]string{"row/1": "a", "row/2": "b"})
	fmt.Println(err)
	var locked *client.LockedError
	fmt.Println(errors.As(c.Put(ctx, "row/1", "x"), &locked) && locked.Start == start)
	fmt.Println(c.Commit(ctx, start, []string{"row/1", "row/2"}))
	fmt.Println(c.Get(ctx, "row/2"))
	// Output:
	// <nil>
	// true <nil>
	// hi <nil>
	// <nil>
	// true
	// <nil>
	// true
	// <nil>
	// b <nil>
}
