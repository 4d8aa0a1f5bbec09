package compaction

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
)

// tree is a family without data: versions whose files are only bounds and sizes, and edits applied to them. Ages are what
// epochs are for: a file of level 0 is newer if its epoch is larger.
type tree struct {
	levels [7][]*manifest.File
	num    uint64
	epoch  uint64
	rng    *rand.Rand
}

func (s *tree) version() *manifest.Version { return manifest.NewVersion(kv.Bytewise, s.levels[:]...) }

func (s *tree) key(n int) []byte { return fmt.Appendf(nil, "%03d", n) }

func (s *tree) newFile(lo, hi int, size, epoch uint64) *manifest.File {
	s.num++
	return &manifest.File{Num: s.num, Size: size, Epoch: epoch, LargestSeq: kv.Seq(1 + s.num),
		Smallest: kv.MakeKey(s.key(lo), 2, kv.KindValue), Largest: kv.MakeKey(s.key(hi), 1, kv.KindValue)}
}

func (s *tree) flush() {
	lo := s.rng.IntN(900)
	s.epoch++
	s.levels[0] = append(s.levels[0], s.newFile(lo, lo+s.rng.IntN(99), uint64(1+s.rng.IntN(30)), s.epoch))
}

// fill puts random runs on some levels. One boundary in four splits a user key, as RocksDB does it.
func (s *tree) fill() {
	for level := 1; level < 7; level++ {
		if s.rng.IntN(3) == 0 {
			continue
		}
		for at := s.rng.IntN(50); at < 950; {
			hi := at + s.rng.IntN(40)
			f := s.newFile(at, hi, uint64(1+s.rng.IntN(50)), 1)
			if n := len(s.levels[level]); n > 0 && bytes.Equal(s.levels[level][n-1].Largest.User, f.Smallest.User) {
				f.Smallest = kv.MakeKey(f.Smallest.User, 0, kv.KindValue)
				f.Largest = kv.MakeKey(f.Largest.User, 0, 0)
			}
			s.levels[level] = append(s.levels[level], f)
			if at = hi + 1 + s.rng.IntN(30); s.rng.IntN(4) == 0 {
				at = hi
			}
			if hi == at && f.Largest.Trailer == 0 {
				at++
			}
		}
	}
}

// apply carries out an edit for which the job made up its outputs.
func (s *tree) apply(p *Plan) error {
	var r Result
	if p.Kind == Rewrite {
		r.Files = s.outputs(p)
	}
	e := r.Edit(p)
	for _, d := range e.Delete {
		n := len(s.levels[d.Level])
		s.levels[d.Level] = slices.DeleteFunc(s.levels[d.Level], func(f *manifest.File) bool { return f.Num == d.Num })
		if len(s.levels[d.Level]) != n-1 {
			return fmt.Errorf("file %d is not on level %d", d.Num, d.Level)
		}
	}
	for _, a := range e.Add {
		s.levels[a.Level] = append(s.levels[a.Level], a.File)
	}
	v := s.version()
	return v.Check(kv.Bytewise)
}

// outputs are tables in p's range, together a little smaller than its inputs.
func (s *tree) outputs(p *Plan) (files []*manifest.File) {
	size := p.InputBytes()
	size -= size * uint64(s.rng.IntN(30)) / 100
	lo, _ := strconv.Atoi(string(p.Range.Start))
	hi, _ := strconv.Atoi(string(p.Range.End))
	if p.OutputLevel == 0 {
		return []*manifest.File{s.newFile(lo, hi, size, p.Epoch())}
	}
	n := min(int(size/max(p.TargetOutputSize, 1))+1, hi-lo+1)
	for i := range n {
		a, b := lo+(hi-lo+1)*i/n, lo+(hi-lo+1)*(i+1)/n-1
		f := s.newFile(a, b, max(size/uint64(n), 1), p.Epoch())
		if p.Reason == BottommostFiles {
			f.LargestSeq = 0
		}
		files = append(files, f)
	}
	return files
}

func overlap(a, b *manifest.File) bool {
	return bytes.Compare(a.Smallest.User, b.Largest.User) <= 0 && bytes.Compare(b.Smallest.User, a.Largest.User) <= 0
}

func touches(r kv.Range, f *manifest.File) bool {
	return bytes.Compare(f.Smallest.User, r.End) <= 0 && bytes.Compare(r.Start, f.Largest.User) <= 0
}

// check is the dumb twin of the picker's care: it compares every file with every other.
func check(v *manifest.Version, p *Plan, running []*Plan) error {
	in := map[uint64]int{}
	for _, input := range p.Inputs {
		for _, f := range input.Files {
			if _, twice := in[f.Num]; twice {
				return fmt.Errorf("file %d is picked twice", f.Num)
			}
			in[f.Num] = input.Level
			if !slices.Contains(v.Level(input.Level), f) {
				return fmt.Errorf("file %d is not on level %d", f.Num, input.Level)
			}
			if !touches(p.Range, f) {
				return fmt.Errorf("file %d is outside the range", f.Num)
			}
		}
	}
	top, out := p.Inputs[0].Level, p.OutputLevel
	bottom := out > 0
	for level, f := range v.All() {
		_, picked := in[f.Num]
		if picked {
			if p.Kind == Move && level > 0 && level == out {
				return fmt.Errorf("file %d moves to where it is", f.Num)
			}
			continue
		}
		switch {
		case level > out && touches(p.Range, f):
			bottom = false
			if !slices.ContainsFunc(p.Below, func(fs []*manifest.File) bool { return slices.Contains(fs, f) }) && out > 0 {
				return fmt.Errorf("file %d is below and not listed", f.Num)
			}
		case p.Kind == Move && level <= out && !slices.ContainsFunc(p.Inputs[0].Files, func(g *manifest.File) bool { return overlap(f, g) }):
			// Files that move need room for themselves only, not for what lies between them.
		case level > 0 && level > top && level <= out && touches(p.Range, f):
			return fmt.Errorf("file %d on level %d is in the way", f.Num, level)
		}
		for _, input := range p.Inputs {
			if input.Level != level {
				continue
			}
			for _, g := range input.Files {
				shared := bytes.Equal(f.Largest.User, g.Smallest.User) || bytes.Equal(g.Largest.User, f.Smallest.User)
				if level > 0 && shared {
					return fmt.Errorf("file %d shares a key with %d", f.Num, g.Num)
				}
				if level == 0 && out > 0 && f.Epoch < g.Epoch && overlap(f, g) {
					return fmt.Errorf("older file %d stays above newer %d", f.Num, g.Num)
				}
			}
		}
	}
	if out == 0 {
		files := v.Level(0)
		at := slices.Index(files, p.Inputs[0].Files[0])
		if !slices.Equal(files[at:at+p.NumFiles()], p.Inputs[0].Files) {
			return fmt.Errorf("files of level 0 are left out between others")
		}
	}
	if bottom != p.Bottommost {
		return fmt.Errorf("bottommost is %v", p.Bottommost)
	}
	for _, q := range running {
		for _, input := range q.Inputs {
			for _, f := range input.Files {
				if _, taken := in[f.Num]; taken {
					return fmt.Errorf("file %d is taken by %v", f.Num, q)
				}
			}
		}
		if q.OutputLevel == out && out > 0 && bytes.Compare(q.Range.Start, p.Range.End) <= 0 && bytes.Compare(p.Range.Start, q.Range.End) <= 0 {
			return fmt.Errorf("%v writes there", q)
		}
	}
	return nil
}

func playPicker(seed uint64, dynamic bool, ops []byte) error {
	s := &tree{rng: rand.New(rand.NewPCG(seed, 3)), epoch: 10}
	l := NewLeveled(kv.Bytewise, LeveledOptions{
		L0Trigger: 2 + s.rng.IntN(4), MaxBytesForLevelBase: 200, Multiplier: float64(2 + s.rng.IntN(9)),
		TargetFileSizeBase: 20, MaxCompactionBytes: uint64(40 + s.rng.IntN(800)), DynamicLevelBytes: dynamic,
	})
	if s.rng.IntN(4) > 0 {
		s.fill()
	}
	busy := &Busy{}
	var running []*Plan
	start := func(p *Plan) error {
		if p == nil {
			return nil
		}
		if err := check(s.version(), p, running); err != nil {
			return fmt.Errorf("%v: %w\n%s", p, err, s.version().DebugString())
		}
		busy.Start(p)
		running = append(running, p)
		return nil
	}
	end := func(i int) error {
		p := running[i]
		running = slices.Delete(running, i, i+1)
		busy.Done(p)
		if err := s.apply(p); err != nil {
			return fmt.Errorf("%v: %w\n%s", p, err, s.version().DebugString())
		}
		return nil
	}
	for _, op := range ops {
		var err error
		switch n := int(op >> 3); op & 7 {
		case 0, 1:
			s.flush()
		case 2, 3:
			err = start(l.Pick(s.version(), busy))
		case 4:
			if len(running) > 0 {
				err = end(n % len(running))
			}
		case 5:
			err = start(l.PickBottommost(s.version(), kv.Seq(n*10), busy))
		default:
			v := s.version()
			level := n % 7
			base, _ := l.Targets(v)
			output := min(level+n%2, 6)
			if level == 0 {
				output = base
			}
			var p *Plan
			p, _, _ = l.PickRange(v, level, output, s.key(n*20), s.key(n*20+300), nil, busy)
			err = start(p)
		}
		if err != nil {
			return err
		}
	}
	for len(running) > 0 {
		if err := end(0); err != nil {
			return err
		}
	}
	for steps := 0; ; steps++ {
		v := s.version()
		p := l.Pick(v, busy)
		if p == nil {
			break
		}
		if steps > 3000 {
			return fmt.Errorf("picking does not end: %v\n%v\n%s", p, l.Scores(v), v.DebugString())
		}
		if err := start(p); err != nil {
			return err
		}
		if err := end(0); err != nil {
			return err
		}
	}
	for level, score := range l.Scores(s.version()) {
		if score >= 1 {
			return fmt.Errorf("level %d has score %v and nothing is done\n%s", level, score, s.version().DebugString())
		}
	}
	for steps := 0; ; steps++ {
		p := l.PickBottommost(s.version(), kv.MaxSeq, busy)
		if p == nil {
			return nil
		}
		if steps > 3000 {
			return fmt.Errorf("rewriting bottommost files does not end: %v", p)
		}
		if err := start(p); err != nil {
			return err
		}
		if err := end(0); err != nil {
			return err
		}
	}
}

func FuzzPickerKeepsInvariant(f *testing.F) {
	f.Add(uint64(1), true, []byte("\x00\x01\x00\x02\x04\x0e\x16\x05"))
	f.Add(uint64(2), false, bytes.Repeat([]byte{0, 0, 0, 0, 2, 2, 0, 0, 2, 4, 46}, 8))
	f.Fuzz(func(t *testing.T, seed uint64, dynamic bool, ops []byte) {
		if err := playPicker(seed, dynamic, ops[:min(len(ops), 100)]); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRandomTreesAreCompactedInOrderAndToAnEnd(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for seed := range uint64(16) {
		ops := make([]byte, 150)
		for i := range ops {
			ops[i] = byte(rng.Uint32())
		}
		if err := playPicker(seed, seed%2 == 0, ops); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
