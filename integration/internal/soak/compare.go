//go:build unix

package soak

import (
	"fmt"
	"maps"
	"slices"

	"github.com/blobtx/blobtx/store"
)

// at is one version of one key.
type at struct {
	key     string
	version store.Version
}

// ask is what a client wanted, and all it was told about it.
type ask struct {
	Record
	answers []Record
}

func (a *ask) got(answer string) bool {
	return slices.ContainsFunc(a.answers, func(r Record) bool { return r.Answer == answer })
}

// comparison holds the ledgers against the facts.
type comparison struct {
	facts
	pages  []page
	asks   map[string]*ask
	parts  map[string]at       // what each part was asked for; the version is not used
	sums   map[string]string   // of the bytes of each part
	made   map[at]change       // every version that ever was
	byPart map[string][]change // the versions that a part became
	gone   map[at][]change     // what replaced or removed a version
	now    map[string]store.Object
	Report
}

// compare judges a run by its ledgers and what both stores hold at rest.
func compare(pages []page, f facts) Report {
	c := &comparison{
		facts: f, pages: pages, asks: map[string]*ask{}, parts: map[string]at{}, sums: map[string]string{},
		made: map[at]change{}, byPart: map[string][]change{}, gone: map[at][]change{}, now: map[string]store.Object{},
	}
	c.index()
	for _, name := range slices.Sorted(maps.Keys(c.asks)) {
		if a := c.asks[name]; a.Delete {
			c.deletion(a)
		} else {
			c.put(a)
		}
	}
	c.versions()
	c.present()
	c.blobsAtRest()
	c.reads()
	for _, row := range c.owed {
		c.find(&c.Owed, "owed", "%s", row)
	}
	return c.Report
}

func (c *comparison) index() {
	tallies := map[string]*Tally{}
	for _, one := range crew {
		if one.kind != "sweeper" {
			tallies[one.name] = &Tally{Name: one.name}
		}
	}
	for _, p := range c.pages {
		t := tallies[p.Client]
		for i, r := range p.Records {
			c.note(r)
			switch {
			case r.Kind == saw && len(r.SHA256) > 0:
				t.Reads++
				c.Reads++
			case r.Answer == acked:
				t.Acked++
				c.Acked++
			case r.Answer == refused:
				t.Refused++
			case r.Answer == unknown:
				t.Unknown++
			case r.Kind == asked && i == len(p.Records)-1:
				t.Unheard++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tallies)) {
		c.Clients = append(c.Clients, *tallies[name])
	}
	for _, h := range c.history {
		if h.version != 0 {
			if _, twice := c.made[at{h.key, h.version}]; twice {
				c.lie("version %d of %s was made twice", h.version, h.key)
			}
			c.made[at{h.key, h.version}] = h
			c.byPart[h.part] = append(c.byPart[h.part], h)
		}
		if h.old != 0 {
			c.gone[at{h.key, h.old}] = append(c.gone[at{h.key, h.old}], h)
		}
	}
	for _, o := range c.objects {
		c.now[o.Key] = o
	}
}

func (c *comparison) note(r Record) {
	switch r.Kind {
	case asked:
		if c.asks[r.Ask] == nil { // else it is asked again
			c.asks[r.Ask] = &ask{Record: r}
		}
		if !r.Delete {
			for i, key := range r.Keys {
				c.parts[part(r.Ask, i)], c.sums[part(r.Ask, i)] = at{key: key}, r.SHA256[i]
			}
		}
	case told:
		c.asks[r.Ask].answers = append(c.asks[r.Ask].answers, r)
	}
}

func (c *comparison) find(count *int, kind, format string, args ...any) {
	*count++
	c.Findings = append(c.Findings, kind+": "+fmt.Sprintf(format, args...))
}

func (c *comparison) lie(format string, args ...any) { c.find(&c.Lies, "lie", format, args...) }

func (c *comparison) lose(format string, args ...any) { c.find(&c.Lost, "lost", format, args...) }

// put checks what was answered to a put against what became of its parts.
func (c *comparison) put(a *ask) {
	there := 0
	for i, key := range a.Keys {
		became := c.byPart[part(a.Ask, i)]
		if len(became) > 1 {
			c.lie("%s was committed %d times", part(a.Ask, i), len(became))
		}
		if len(became) == 0 {
			continue
		}
		there++
		if h := became[0]; h.key != key || h.sha256 != a.SHA256[i] {
			c.lie("%s asked for %s with %.8s and became %s with %.8s", part(a.Ask, i), key, a.SHA256[i], h.key, h.sha256)
		}
	}
	if there != 0 && there != len(a.Keys) {
		c.lie("%s: %d of %d parts of one commit are there", a.Ask, there, len(a.Keys))
	}
	if orders := c.orders[a.Ask]; orders > 1 || a.Via == viaTx && (orders == 1) != (there > 0) {
		c.lie("%s: %d orders and %d objects of one transaction are there", a.Ask, orders, there)
	}
	for _, r := range a.answers {
		switch r.Answer {
		case broken:
			c.lie("%s was told what must not be: %s", a.Ask, r.Error)
		case refused:
			if there > 0 {
				c.lie("%s was told that it is not committed (%s), and it is", a.Ask, r.Error)
			}
		case acked:
			c.acknowledged(a, r)
		}
	}
}

func (c *comparison) acknowledged(a *ask, r Record) {
	for i, key := range a.Keys {
		became := c.byPart[part(a.Ask, i)]
		switch {
		case len(became) == 0:
			c.lose("%s was acknowledged as %s and never was", part(a.Ask, i), key)
		case i >= len(r.Versions) || became[0].version != r.Versions[i] || became[0].sha256 != r.SHA256[i]:
			c.lie("%s was acknowledged as version %v with %.8v and is version %d with %.8s", part(a.Ask, i), r.Versions, r.SHA256, became[0].version, became[0].sha256)
		}
	}
}

// versionOf returns the one version that a condition names, 0 if none.
func versionOf(condition store.Condition) store.Version {
	var v store.Version
	text, err := condition.MarshalText()
	if err != nil || v.UnmarshalText(text) != nil {
		return 0
	}
	return v
}

// deletion checks what was answered to a delete.
func (c *comparison) deletion(a *ask) {
	key, want := a.Keys[0], versionOf(*a.If)
	for _, r := range a.answers {
		switch r.Answer {
		case broken:
			c.lie("%s was told what must not be: %s", a.Ask, r.Error)
		case refused:
			if c.orders[a.Ask] > 0 {
				c.lie("%s was told that %s is not deleted (%s), and its order is there", a.Ask, key, r.Error)
			}
		case acked:
			if a.Via == viaTx && c.orders[a.Ask] == 0 {
				c.lose("%s was told that %s is deleted, and its order is not there", a.Ask, key)
			}
			removed := slices.ContainsFunc(c.gone[at{key, want}], func(h change) bool { return h.version == 0 })
			if want != 0 && !removed {
				c.lose("%s was told that version %d of %s is deleted, and it never was", a.Ask, want, key)
			}
			if o, ok := c.now[key]; ok && c.ackedBefore(o, a.Record) {
				c.lose("%s was told that %s is deleted, and version %d from before is there", a.Ask, key, o.Version)
			}
		}
	}
}

// ackedBefore reports whether somebody had been told of the object before the
// delete was asked for.
func (c *comparison) ackedBefore(o store.Object, deletion Record) bool {
	if a := c.asks[askOf(o.Metadata[partKey])]; a != nil {
		return slices.ContainsFunc(a.answers, func(r Record) bool { return r.Answer == acked && r.At.Before(deletion.At) })
	}
	return false
}
