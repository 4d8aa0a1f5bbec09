// Package node is one process of raftkv: a database, a replica of every region, and an HTTP server for clients and peers.
//
// # What a client types
//
//	PUT    /kv/{key}        the body is the value
//	GET    /kv/{key}        the value; 404 if there is none. Any node answers, with what was acknowledged before the question
//	                        (ReadIndex); with ?stale=1 from what it has at hand
//	DELETE /kv/{key}
//	POST   /cas             {"key": …, "old": …, "new": …}; null for no such key
//	POST   /batch           {"puts": {key: value, …}, "deletes": [key, …]}: all or nothing, keys of one region
//	POST   /bulk/prewrite   {"puts": …}, answered with a start; then POST /bulk/commit or /bulk/rollback {"start", "keys"}
//	GET    /status          how every region stands here
//	GET    /leader?key=…    the node that leads the key's region
//	GET    /metrics         in Prometheus' form
//	GET, POST /admin/config {"apply-yield-write-size": "32KiB", …}, taken by this node at once
//	POST   /admin/add       {"id": 4, "addr": "127.0.0.1:7004"}; start that node first, with -join
//	POST   /admin/remove    {"id": 2}
//	POST   /admin/transfer  {"region": 1, "to": 2}
//
// Writes are done by the region's leader. Another node answers 307 with the leader's address, so use curl -L.
//
// # How a request may fail
//
// 400 and 413 are the client's mistakes, 404 is no such key, 409 a comparison that failed, 423 a key that a bulk insert has
// locked: nothing was done. 503 says that nothing was done, and that it may be tried again, here or elsewhere. 504 says that
// nobody knows yet; so does a connection that breaks. Then send the same command again: with the headers Raftkv-Client, a
// random number, and Raftkv-Seq, counting the client's commands, it is done once all the same.
package node
