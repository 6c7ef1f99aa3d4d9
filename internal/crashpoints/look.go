package crashpoints

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// remember notes what is there before the operation.
func (w *world) remember() {
	w.before = make(map[string]bool)
	for name := range w.server.Inspect(containerName) {
		w.before[name] = true
	}
}

// describe puts both stores into words: the object, the operation's intent and
// what is in the container besides the bytes of an old object.
func (w *world) describe() string {
	var parts []string
	say := func(words ...string) { parts = append(parts, strings.Join(slices.DeleteFunc(words, isEmpty), " ")) }
	named := make(map[string]bool)
	for _, o := range w.rows.Objects() {
		named[o.Blob.Name] = true
		say(w.age(o.Blob.Name), "object")
	}
	for _, in := range w.rows.Intents() {
		say("intent", string(in.State))
	}
	staged := w.server.StagedNames(containerName)
	for _, name := range slices.Sorted(maps.Keys(staged)) {
		blocks := "1 block staged"
		if n := staged[name]; n > 1 {
			blocks = fmt.Sprintf("%d blocks staged", n)
		}
		say(w.age(name), blocks)
	}
	retired := make(map[string]bool)
	for _, r := range w.rows.RetiredNames() {
		retired[r.BlobName] = true
	}
	blobs := w.server.Inspect(containerName)
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		switch {
		case retired[name]:
			say(w.age(name), "blob given up")
		case !w.before[name] || !named[name]:
			say(w.age(name), "blob", blobs[name].Tags["state"])
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

// age tells what was there before from what came: only where there are both.
func (w *world) age(blobName string) string {
	switch {
	case len(w.before) == 0:
		return ""
	case w.before[blobName]:
		return "old"
	}
	return "new"
}

func isEmpty(s string) bool { return s == "" }

// moves are the changes of state that any execution showed.
type moves struct {
	intents, blobs map[move]bool
}

// move is one change: none stands for what is not there.
type move struct{ from, to string }

const none = "none"

func newMoves() *moves { return &moves{make(map[move]bool), make(map[move]bool)} }

// observe looks at both stores and notes what has changed since the last time.
func (w *world) observe() {
	intents := make(map[string]string)
	for _, in := range w.rows.Intents() {
		intents[in.ID] = string(in.State)
	}
	blobs := make(map[string]string)
	for name := range w.server.StagedNames(containerName) {
		blobs[name] = "staged"
	}
	for name, b := range w.server.Inspect(containerName) {
		blobs[name] = b.Tags["state"]
	}
	changes(w.intents, intents, w.moves.intents)
	changes(w.blobs, blobs, w.moves.blobs)
	w.intents, w.blobs = intents, blobs
}

func changes(before, now map[string]string, seen map[move]bool) {
	for id, state := range now {
		was, known := before[id]
		if !known {
			was = none
		}
		if was != state {
			seen[move{was, state}] = true
		}
	}
	for id, was := range before {
		if _, still := now[id]; !still {
			seen[move{was, none}] = true
		}
	}
}
