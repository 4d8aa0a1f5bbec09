package peer

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Book has the addresses of the nodes. All methods may be called from many goroutines. Every connection brings the other's book, so that a node that is added at one node
// becomes known to all.
type Book struct {
	mu     sync.Mutex
	self   uint64
	addrs  map[uint64]string
	onNews func(id uint64, addr string)
}

// NewBook returns a book with the addresses that are known. onNews, if not nil, is told of each new or changed one.
func NewBook(self uint64, addrs map[uint64]string, onNews func(id uint64, addr string)) *Book {
	return &Book{self: self, addrs: maps.Clone(addrs), onNews: onNews}
}

// Addr returns a node's address.
func (b *Book) Addr(id uint64) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	addr, ok := b.addrs[id]
	return addr, ok
}

// Learn notes a node's address, from the node itself or from who adds it. A node knows its own best.
func (b *Book) Learn(id uint64, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.learnLocked(id, addr)
}

// merge takes from's address out of its book, and those that are news.
func (b *Book) merge(from uint64, theirs map[uint64]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, addr := range theirs {
		if id == from || b.addrs[id] == "" {
			b.learnLocked(id, addr)
		}
	}
}

func (b *Book) learnLocked(id uint64, addr string) {
	if id == b.self || b.addrs[id] == addr {
		return
	}
	b.addrs[id] = addr
	if b.onNews != nil {
		b.onNews(id, addr)
	}
}

// String writes the book as ParseAddrs reads it.
func (b *Book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return FormatAddrs(b.addrs)
}

// FormatAddrs writes addresses as ParseAddrs reads them.
func FormatAddrs(addrs map[uint64]string) string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(addrs)) {
		parts = append(parts, fmt.Sprintf("%d=%s", id, addrs[id]))
	}
	return strings.Join(parts, ",")
}

// ParseAddrs reads addresses: "1=127.0.0.1:7001,2=127.0.0.1:7002". Ids are 1 or more.
func ParseAddrs(s string) (map[uint64]string, error) {
	addrs := map[uint64]string{}
	for part := range strings.SplitSeq(s, ",") {
		name, addr, ok := strings.Cut(strings.TrimSpace(part), "=")
		id, err := strconv.ParseUint(name, 10, 32)
		if !ok || err != nil || id == 0 {
			return nil, fmt.Errorf("node %q: want ID=HOST:PORT with an id from 1", part)
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("node %q: %w", part, err)
		}
		if addrs[id] != "" {
			return nil, fmt.Errorf("node %d is named twice", id)
		}
		addrs[id] = addr
	}
	return addrs, nil
}
