package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/ashlardb/ashlar/examples/raftkv/node"
)

const usage = `raftkv is a replicated key-value store, an example of Ashlar behind a consensus library.

	go run . up                    three nodes on this machine; prints how to talk to them
	go run . node -id 1 -nodes …   one node
	go run . up -h, node -h        the flags
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "raftkv:", err)
		os.Exit(1)
	}
}

// run does a command until it ends or ctx does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "up":
		return up(ctx, args[1:], stdout, stderr)
	case "node":
		return node.Run(ctx, args[1:], stderr)
	case "help", "-h", "-help", "--help":
		_, err := io.WriteString(stdout, usage)
		return err
	case "":
		return fmt.Errorf("no command\n\n%s", usage)
	}
	return fmt.Errorf("there is no command %q\n\n%s", command, usage)
}
