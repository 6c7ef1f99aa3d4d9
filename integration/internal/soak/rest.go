//go:build unix

package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobtx/blobtx/store"
)

// offset is how far the clock of the conductor's stores runs ahead.
type offset struct{ by atomic.Int64 }

func (o *offset) now() time.Duration { return time.Duration(o.by.Load()) }

// leap is longer than any deadline that a sweep sets: the claim of a sweeper
// that died, a retry's backoff, the quarantine.
const leap = 3 * time.Hour

// atRest lets all deadlines pass and sweeps, until there is nothing left to do.
func (s *stores) atRest(ctx context.Context, clock *offset) error {
	idle := 0
	for range 40 {
		clock.by.Add(int64(leap))
		r, err := s.Sweep(ctx, nil)
		if err != nil {
			return err
		}
		r.Forgotten = 0 // outcomes, which name no blob
		if r.Abandoned+r.Cleared+r.Sealed+r.Deleted+r.Held+r.Failed > 0 {
			fmt.Printf("soak: swept %+v\n", r)
			idle = 0
			continue
		}
		if idle++; idle == 2 {
			return nil
		}
	}
	return errors.New("the sweeps do not come to rest")
}

// facts is what both stores hold at rest.
type facts struct {
	objects []store.Object
	blobs   map[string]store.Blob // by name, with the size and SHA-256 of the bytes that are there
	history []change
	orders  map[string]int // by ask: the application's rows that are there
	owed    []string       // rows that still wait for somebody, though every deadline has passed
}

// change is one line of the database's own history.
type change struct {
	key     string
	version store.Version // 0: removed
	old     store.Version // 0: there was none
	part    string
	sha256  string
}

func (s *stores) gather(ctx context.Context) (facts, error) {
	f := facts{blobs: map[string]store.Blob{}, orders: map[string]int{}}
	var err error
	for o, listErr := range s.List(ctx, nil) {
		if err = listErr; err != nil {
			return f, err
		}
		f.objects = append(f.objects, o)
	}
	if f.blobs, err = s.readBlobs(ctx); err != nil {
		return f, err
	}
	err = s.query(ctx, `SELECT blob_name, state || ' ' || last_error FROM blobtx_intents WHERE state <> 'done'
		UNION ALL SELECT blob_name, 'retired ' || last_error FROM blobtx_retired`, func(scan func(...any) error) error {
		var name, why string
		err := scan(&name, &why)
		f.owed = append(f.owed, name+": "+why)
		return err
	})
	if err != nil {
		return f, err
	}
	err = s.query(ctx, `SELECT ask FROM soak_orders`, func(scan func(...any) error) error {
		var ask string
		err := scan(&ask)
		f.orders[ask]++
		return err
	})
	if err != nil {
		return f, err
	}
	return f, s.query(ctx, `SELECT object_key, version, old_version, sha256, metadata FROM soak_history`, func(scan func(...any) error) error {
		var c change
		var metadata string
		if err := scan(&c.key, &c.version, &c.old, &c.sha256, &metadata); err != nil {
			return err
		}
		var m map[string]string
		if err := json.Unmarshal([]byte(metadata), &m); err != nil {
			return err
		}
		c.part = m[partKey]
		f.history = append(f.history, c)
		return nil
	})
}

func (s *stores) query(ctx context.Context, text string, each func(scan func(...any) error) error) error {
	rows, err := s.db.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close() // Err below tells
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readBlobs reads every byte in the container, besides what is reserved.
func (s *stores) readBlobs(ctx context.Context) (map[string]store.Blob, error) {
	var (
		mu     sync.Mutex
		all    = map[string]store.Blob{}
		failed error
		work   = make(chan store.BlobInfo)
		done   sync.WaitGroup
	)
	for range 4 {
		done.Go(func() {
			for info := range work {
				b, err := s.readBlob(ctx, info)
				mu.Lock()
				all[info.Name], failed = b, errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	var listErr error
	for info, err := range s.blobs.List(ctx, store.ListBlobsParams{}) {
		if listErr = err; err != nil {
			break
		}
		if !strings.HasPrefix(info.Name, store.ReservedPrefix) {
			work <- info
		}
	}
	close(work)
	done.Wait()
	return all, errors.Join(listErr, failed)
}

func (s *stores) readBlob(ctx context.Context, info store.BlobInfo) (store.Blob, error) {
	r, err := s.blobs.Open(ctx, store.OpenParams{Name: info.Name, ETag: info.ETag, Count: -1})
	if err != nil {
		return store.Blob{}, err
	}
	defer r.Close() // only read
	body, err := io.ReadAll(r)
	return store.Blob{Name: info.Name, ETag: info.ETag, Size: int64(len(body)), SHA256: sumOf(body)}, err
}
