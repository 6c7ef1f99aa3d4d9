//go:build unix

package soak

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/blobtx/blobtx/store"
)

func askOf(part string) string {
	name, _, _ := strings.Cut(part, "/")
	return name
}

// versions checks the history by itself: every version was asked for, under a
// condition that held, and went at most once, by a request of somebody's.
func (c *comparison) versions() {
	whoever := c.deleters()
	for _, v := range slices.SortedFunc(maps.Keys(c.made), compareAt) {
		h := c.made[v]
		a := c.asks[askOf(h.part)]
		if _, known := c.parts[h.part]; a == nil || !known {
			c.lie("nobody asked for version %d of %s", v.version, v.key)
			continue
		}
		if !holds(*a.If, h.old) {
			c.lie("%s became version %d of %s on condition %s over version %d", h.part, v.version, v.key, a.If, h.old)
		}
		gone := c.gone[v]
		if len(gone) > 1 {
			c.lie("version %d of %s went %d times", v.version, v.key, len(gone))
		}
		if len(gone) == 0 && c.now[v.key].Version != v.version {
			c.lose("version %d of %s (%s) is not there, and nothing replaced or deleted it", v.version, v.key, h.part)
		}
		if len(gone) > 0 && gone[0].version == 0 && !whoever.may(v) {
			c.lose("version %d of %s was deleted, and nobody may have asked for it", v.version, v.key)
		}
	}
	for _, v := range slices.SortedFunc(maps.Keys(c.gone), compareAt) {
		if _, was := c.made[v]; !was {
			c.lie("version %d of %s went and never was", v.version, v.key)
		}
	}
}

func compareAt(a, b at) int {
	return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.version, b.version))
}

func holds(condition store.Condition, old store.Version) bool {
	switch condition {
	case store.Always():
		return true
	case store.IfAbsent():
		return old == 0
	case store.IfExists():
		return old != 0
	}
	return versionOf(condition) == old
}

// deleters is who asked for deletes and was not refused.
type deleters struct {
	exact map[at]bool
	any   map[string]int // by key; each may have removed one version
}

func (c *comparison) deleters() deleters {
	d := deleters{map[at]bool{}, map[string]int{}}
	for _, a := range c.asks {
		switch v := versionOf(*a.If); {
		case !a.Delete || a.got(refused):
		case v != 0:
			d.exact[at{a.Keys[0], v}] = true
		default:
			d.any[a.Keys[0]]++
		}
	}
	return d
}

func (d deleters) may(v at) bool {
	if d.exact[v] {
		return true
	}
	d.any[v.key]--
	return d.any[v.key] >= 0
}

// present checks the objects as they are now against the history.
func (c *comparison) present() {
	for _, o := range c.objects {
		h, was := c.made[at{o.Key, o.Version}]
		switch {
		case !was || len(c.gone[at{o.Key, o.Version}]) > 0:
			c.lie("%s is at version %d, which the history does not have or has given up", o.Key, o.Version)
		case h.sha256 != o.Blob.SHA256 || h.part != o.Metadata[partKey]:
			c.lie("%s at version %d is not what was committed", o.Key, o.Version)
		}
	}
}

// blobsAtRest checks that the container holds the objects' blobs and no others.
func (c *comparison) blobsAtRest() {
	named := map[string]bool{}
	for _, o := range c.objects {
		named[o.Blob.Name] = true
		b, ok := c.blobs[o.Blob.Name]
		switch {
		case !ok:
			c.find(&c.Dangling, "dangling", "%s at version %d: its blob is not there", o.Key, o.Version)
		case b.ETag != o.Blob.ETag || b.Size != o.Blob.Size || b.SHA256 != o.Blob.SHA256:
			c.find(&c.Dangling, "dangling", "%s at version %d: its blob is another", o.Key, o.Version)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.blobs)) {
		if !named[name] {
			c.find(&c.Orphans, "orphan", "nothing names blob %s", name)
		}
	}
}

// reads checks everything that readers saw.
func (c *comparison) reads() {
	acks := c.acksByKey()
	for _, p := range c.pages {
		last := map[string]store.Version{}
		for _, r := range p.Records {
			if r.Kind != saw {
				continue
			}
			if r.Answer == broken {
				c.lie("%s met an object without its bytes: %s", p.Client, r.Error)
				continue
			}
			known := max(last[r.Key], newest(acks[r.Key], r.At))
			if r.Version == 0 {
				c.absent(p.Client, r, known)
				continue
			}
			last[r.Key] = r.Version
			if h, was := c.made[at{r.Key, r.Version}]; !was || h.part != r.Part || c.parts[r.Part].key != r.Key {
				c.lie("%s saw version %d of %s (%s), which never was", p.Client, r.Version, r.Key, r.Part)
			}
			if r.SHA256[0] != c.sums[r.Part] {
				c.lie("%s read other bytes of %s than %s wrote", p.Client, r.Key, r.Part)
			}
			// Two versions of one millisecond are in no order across a delete.
			if r.Version>>store.RandomBits < known>>store.RandomBits {
				c.lie("%s saw version %d of %s after it was told of %d", p.Client, r.Version, r.Key, known)
			}
		}
	}
}

// absent: an object that was known may only be missing once it was deleted.
func (c *comparison) absent(client string, r Record, known store.Version) {
	if known == 0 {
		return
	}
	for v, gone := range c.gone {
		if v.key == r.Key && v.version >= known && gone[0].version == 0 {
			return
		}
	}
	c.lie("%s did not find %s after version %d was known, and nothing deleted it", client, r.Key, known)
}

// ack is when a client had been told of a version.
type ack struct {
	when    time.Time
	version store.Version // the newest of which any client had been told then
}

func (c *comparison) acksByKey() map[string][]ack {
	acks := map[string][]ack{}
	for _, a := range c.asks {
		for _, r := range a.answers {
			if r.Answer == acked && !a.Delete {
				for i, key := range a.Keys {
					acks[key] = append(acks[key], ack{r.At, r.Versions[i]})
				}
			}
		}
	}
	for _, list := range acks {
		slices.SortFunc(list, func(a, b ack) int { return a.when.Compare(b.when) })
		for i := 1; i < len(list); i++ {
			list[i].version = max(list[i].version, list[i-1].version)
		}
	}
	return acks
}

// newest is the newest version of which some client had been told before when.
func newest(acks []ack, when time.Time) store.Version {
	i, _ := slices.BinarySearchFunc(acks, when, func(a ack, when time.Time) int { return a.when.Compare(when) })
	if i == 0 {
		return 0
	}
	return acks[i-1].version
}
