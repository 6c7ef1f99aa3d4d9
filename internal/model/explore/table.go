package explore

import "hash/maphash"

// table is a set of states in the order in which they came, each with the one
// that it was first reached from. A map would hold them twice.
type table[S comparable] struct {
	seed   maphash.Seed
	slots  []uint32 // open addressing: index + 1, 0 is free; a power of two, at most half full
	chunks [][]node[S]
	len    uint32
}

type node[S comparable] struct {
	state  S
	before uint32
}

const chunk = 1 << 14

func newTable[S comparable]() *table[S] {
	return &table[S]{seed: maphash.MakeSeed(), slots: make([]uint32, 1<<10)}
}

func (t *table[S]) at(i uint32) *node[S] { return &t.chunks[i/chunk][i%chunk] }

// add takes s in, unless it is known.
func (t *table[S]) add(s S, before uint32) {
	slot := t.find(s)
	if t.slots[slot] != 0 {
		return
	}
	if t.len%chunk == 0 {
		t.chunks = append(t.chunks, make([]node[S], chunk))
	}
	*t.at(t.len) = node[S]{s, before}
	t.len++
	t.slots[slot] = t.len
	if 2*int(t.len) > len(t.slots) {
		t.grow()
	}
}

// find returns the slot where s is, or the free one where it belongs.
func (t *table[S]) find(s S) uint64 {
	mask := uint64(len(t.slots) - 1)
	slot := maphash.Comparable(t.seed, s) & mask
	for t.slots[slot] != 0 && t.at(t.slots[slot]-1).state != s {
		slot = (slot + 1) & mask
	}
	return slot
}

func (t *table[S]) grow() {
	t.slots = make([]uint32, 2*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for i := range t.len {
		slot := maphash.Comparable(t.seed, t.at(i).state) & mask
		for t.slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		t.slots[slot] = i + 1
	}
}
