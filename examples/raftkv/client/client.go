// Package client talks to raftkv: it finds the leader, goes on when nodes end, and does each command once however often it
// has to be sent.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ashlardb/ashlar/examples/raftkv/node"
)

// Errors that a caller may tell apart.
var (
	// ErrNotFound is Get's for a key that does not exist.
	ErrNotFound = errors.New("raftkv: no such key")
	// ErrLocked is matched by *LockedError.
	ErrLocked = errors.New("raftkv: a bulk insert has locked the key")
	// ErrRefused is of a request that makes no sense: nothing was done.
	ErrRefused = errors.New("raftkv: refused")
	// ErrUnavailable is of a request that nobody took in time: nothing was done.
	ErrUnavailable = errors.New("raftkv: no node took the request")
	// ErrUnknown is of a command of which nobody said in time whether it took effect. It may yet, until the client's next command in the region.
	ErrUnknown = errors.New("raftkv: the outcome is not known")
)

// LockedError is of a key that a bulk insert has locked: nothing was done. Who knows that it was given up may Rollback with
// its Start.
type LockedError struct{ Start uint64 }

func (e *LockedError) Error() string { return fmt.Sprintf("%v, start %d", ErrLocked, e.Start) }

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// How long one node may take, and how long a client waits before it asks the next.
const (
	attemptTimeout = 2 * time.Second
	pause          = 10 * time.Millisecond
)

// Client is one client: it has one command under way at a time, and others wait. All methods may be called from many
// goroutines. They try until ctx ends.
type Client struct {
	id   uint64
	http *http.Client

	command sync.Mutex // held while a command is under way
	seq     uint64     // guarded by command

	mu    sync.Mutex
	addrs []string
	next  int // in addrs: who is asked first
}

// New returns a client of the nodes at the addresses.
func New(addrs []string) *Client {
	c := &Client{id: 1 + rand.Uint64N(1<<63), addrs: addrs}
	c.http = &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 4},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// SetAddrs replaces the addresses.
func (c *Client) SetAddrs(addrs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addrs, c.next = addrs, 0
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get returns a key's value. It sees every command that was acknowledged to anybody before the call.
func (c *Client) Get(ctx context.Context, key string) (string, error) {
	a, err := c.try(ctx, http.MethodGet, "/kv/"+url.PathEscape(key), nil, 0)
	if errors.Is(err, ErrUnknown) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err()) // a read does nothing
	}
	if err == nil && a.code == http.StatusNotFound {
		return "", ErrNotFound
	}
	return string(a.body), err
}

// Put sets a key.
func (c *Client) Put(ctx context.Context, key, value string) error {
	_, err := c.do(ctx, http.MethodPut, "/kv/"+url.PathEscape(key), []byte(value))
	return err
}

// Delete removes a key.
func (c *Client) Delete(ctx context.Context, key string) error {
	_, err := c.do(ctx, http.MethodDelete, "/kv/"+url.PathEscape(key), nil)
	return err
}

// CAS sets a key from old to new; nil is no such key. false says that it is not old.
func (c *Client) CAS(ctx context.Context, key string, old, new *string) (bool, error) {
	a, err := c.doJSON(ctx, "/cas", map[string]any{"key": key, "old": old, "new": new})
	return err == nil && a.code == http.StatusOK, err
}

// Batch does puts and deletes together. The keys are of one region.
func (c *Client) Batch(ctx context.Context, puts map[string]string, deletes []string) error {
	_, err := c.doJSON(ctx, "/batch", map[string]any{"puts": puts, "deletes": deletes})
	return err
}

// Prewrite puts values that are seen after Commit with the start that it returns.
func (c *Client) Prewrite(ctx context.Context, puts map[string]string) (start uint64, err error) {
	a, err := c.doJSON(ctx, "/bulk/prewrite", map[string]any{"puts": puts})
	var done node.Done
	if err == nil {
		err = json.Unmarshal(a.body, &done)
	}
	return done.Start, err
}

// Commit ends a Prewrite.
func (c *Client) Commit(ctx context.Context, start uint64, keys []string) error {
	return c.endBulk(ctx, "/bulk/commit", start, keys)
}

// Rollback gives a Prewrite up.
func (c *Client) Rollback(ctx context.Context, start uint64, keys []string) error {
	return c.endBulk(ctx, "/bulk/rollback", start, keys)
}

func (c *Client) endBulk(ctx context.Context, path string, start uint64, keys []string) error {
	a, err := c.doJSON(ctx, path, map[string]any{"start": start, "keys": keys})
	if err == nil && a.code != http.StatusOK {
		err = fmt.Errorf("%w: %s", ErrRefused, bytes.TrimSpace(a.body))
	}
	return err
}

func (c *Client) doJSON(ctx context.Context, path string, body any) (answer, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	return c.do(ctx, http.MethodPost, path, data)
}

// do does a command under a new sequence number.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (answer, error) {
	c.command.Lock()
	defer c.command.Unlock()
	c.seq++
	return c.try(ctx, method, path, body, c.seq)
}

// answer is one that says what became of the request: 200, 404 or 409.
type answer struct {
	code int
	body []byte
}

// try sends a request until a node says what became of it. Once a node may have taken it, only such an answer ends the
// doubt: a later refusal is of the later attempt.
func (c *Client) try(ctx context.Context, method, path string, body []byte, seq uint64) (answer, error) {
	var doubt bool
	var last error
	for addr := c.first(); ; {
		a, redirected, err := c.attempt(ctx, addr, method, path, body, seq)
		switch {
		case err != nil:
			doubt, last = true, err
		case a.code == http.StatusOK, a.code == http.StatusNotFound, a.code == http.StatusConflict:
			c.prefer(addr)
			return a, nil
		case a.code == http.StatusLocked:
			var done node.Done
			if err := json.Unmarshal(a.body, &done); err != nil {
				return answer{}, fmt.Errorf("%w: %w", ErrLocked, err)
			}
			return answer{}, &LockedError{done.Start}
		case a.code == http.StatusGatewayTimeout:
			doubt, last = true, fmt.Errorf("%s: %s", addr, bytes.TrimSpace(a.body))
		case a.code == http.StatusTemporaryRedirect, a.code == http.StatusServiceUnavailable:
			last = fmt.Errorf("%s: %s", addr, bytes.TrimSpace(a.body))
		default:
			return answer{}, fmt.Errorf("%w: %s: %s", ErrRefused, addr, bytes.TrimSpace(a.body))
		}
		if addr = redirected; addr == "" {
			addr = c.another()
		}
		if err := wait(ctx, redirected == ""); err != nil {
			kind := ErrUnavailable
			if doubt {
				kind = ErrUnknown
			}
			return answer{}, fmt.Errorf("%w: %w: %w", kind, err, last)
		}
	}
}

// wait lets others go first, unless a node said who to ask.
func wait(ctx context.Context, long bool) error {
	if !long {
		return ctx.Err()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) attempt(ctx context.Context, addr, method, path string, body []byte, seq uint64) (a answer, redirected string, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return a, "", err
	}
	if seq > 0 {
		req.Header.Set(node.HeaderClient, fmt.Sprint(c.id))
		req.Header.Set(node.HeaderSeq, fmt.Sprint(seq))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return a, "", err
	}
	defer resp.Body.Close()
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return a, "", err
	}
	a.code = resp.StatusCode
	if to, err := url.Parse(resp.Header.Get("Location")); err == nil && a.code == http.StatusTemporaryRedirect {
		redirected = strings.TrimSpace(to.Host)
	}
	return a, redirected, nil
}

func (c *Client) first() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addrs[c.next]
}

func (c *Client) another() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = (c.next + 1) % len(c.addrs)
	return c.addrs[c.next]
}

// prefer asks addr first from now on.
func (c *Client) prefer(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, a := range c.addrs {
		if a == addr {
			c.next = i
		}
	}
}
