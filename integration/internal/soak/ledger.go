//go:build unix

package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blobtx/blobtx/store"
)

// Kinds of records, answers and ways.
const (
	asked = "asked" // written before anything is sent
	told  = "told"
	saw   = "saw" // by a reader

	acked   = "acked"
	refused = "refused" // not committed: nothing of it is ever visible
	unknown = "unknown"
	broken  = "broken" // an answer that must not be: a fault by itself

	viaPut    = "put"    // Put, or Stage and Commit
	viaTx     = "tx"     // CommitWith or DeleteTx beside a row of the application's
	viaDelete = "delete" // Delete
)

// Record is one line of a ledger.
type Record struct {
	Kind string
	At   time.Time // when the line was written; of a saw: when the read began
	Ask  string

	// asked
	Via    string           `json:",omitempty"`
	Delete bool             `json:",omitempty"`
	Keys   []string         `json:",omitempty"` // one per part
	SHA256 []string         `json:",omitempty"` // of the parts; told: as acknowledged
	If     *store.Condition `json:",omitempty"`
	Again  bool             `json:",omitempty"` // has an idempotency key: may be asked again

	// told
	Answer   string          `json:",omitempty"`
	Versions []store.Version `json:",omitempty"`
	Error    string          `json:",omitempty"`

	// saw: one key; version 0 is "not found", Part names the bytes
	Key     string        `json:",omitempty"`
	Version store.Version `json:",omitempty"`
	Part    string        `json:",omitempty"`
}

// part names the bytes of one part of an ask.
func part(ask string, i int) string { return ask + "/" + strconv.Itoa(i) }

// ledger is the file of one process. Each record is one write without a buffer:
// what was written before a SIGKILL is in the file.
type ledger struct{ file *os.File }

func ledgerPath(dir, name string, incarnation int) string {
	return filepath.Join(dir, fmt.Sprintf("%s.%d", name, incarnation))
}

func openLedger(path string) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	return &ledger{file}, err
}

func (l *ledger) write(r Record) error {
	if r.At.IsZero() {
		r.At = time.Now()
	}
	if len(r.Error) > 400 {
		r.Error = r.Error[:400]
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// readLedger returns the records of one process in their order. A last line
// without its end was torn by a kill: what it was to say was never acted on.
func readLedger(path string) ([]Record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var records []Record
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", filepath.Base(path), len(records)+1, err)
		}
		records = append(records, r)
	}
	return records, nil
}

// page is the ledger of one process.
type page struct {
	Client      string
	Incarnation int
	Records     []Record
}

// readLedgers returns all pages, those of a client in the order of its lives.
func readLedgers(dir string) ([]page, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var pages []page
	for _, entry := range entries {
		name, life, _ := strings.Cut(entry.Name(), ".")
		incarnation, err := strconv.Atoi(life)
		if err != nil {
			return nil, fmt.Errorf("%s is no ledger", entry.Name())
		}
		records, err := readLedger(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		pages = append(pages, page{name, incarnation, records})
	}
	slices.SortFunc(pages, func(a, b page) int {
		if a.Client != b.Client {
			return strings.Compare(a.Client, b.Client)
		}
		return a.Incarnation - b.Incarnation
	})
	return pages, nil
}

// unfinished returns what a client's earlier life asked last without a final
// answer, if it may be asked again.
func unfinished(dir, name string, incarnation int) (*Record, error) {
	for life := incarnation - 1; life >= 0; life-- {
		records, err := readLedger(ledgerPath(dir, name, life))
		if os.IsNotExist(err) || err == nil && len(records) == 0 {
			continue // killed before it did anything
		}
		if err != nil {
			return nil, err
		}
		i := len(records) - 1
		if records[i].Kind == told && records[i].Answer == unknown {
			i--
		}
		if i >= 0 && records[i].Kind == asked && records[i].Again {
			return &records[i], nil
		}
		return nil, nil
	}
	return nil, nil
}
