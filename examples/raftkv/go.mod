module github.com/ashlardb/ashlar/examples/raftkv

go 1.26.8

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/ashlardb/ashlar v0.0.0
	github.com/ashlardb/ashlar/raftapply/etcdraft v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.etcd.io/raft/v3 v3.7.0
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/bits-and-blooms/bitset v1.24.2 // indirect
	github.com/bits-and-blooms/bloom/v3 v3.7.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/ashlardb/ashlar => ../..

replace github.com/ashlardb/ashlar/raftapply/etcdraft => ../../raftapply/etcdraft
