package blobtxtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/blobtx/blobtx/store"
)

// inspector is a RowStore that shows all of its rows, as package memstore's
// does.
type inspector interface {
	Intents() []store.Intent
	RetiredNames() []store.Retired
}

// Check verifies the invariants of both stores as they are now, for the end of
// a unit test:
//
//   - every object has its blob, with the row's ETag, size and bytes;
//   - every blob, besides the reserved prefix, is named by an object or by an
//     intent that still exists;
//   - and otherwise was committed once and given up: with a store that shows
//     its retired names (memstore) its name is among them; with any other a
//     sealed blob is taken for one that awaits its sweep.
//
// Nothing may be under way while it reads. It may be called in t.Cleanup.
func Check(t testing.TB, rows store.RowStore, blobs store.BlobStore) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // which ends before Cleanup
	for _, problem := range check(ctx, rows, blobs) {
		t.Errorf("blobtxtest: %v", problem)
	}
}

func check(ctx context.Context, rows store.RowStore, blobs store.BlobStore) (problems []error) {
	named, problems := checkObjects(ctx, rows, blobs)
	recorded := make(map[string]bool)
	all, shows := rows.(inspector)
	if shows {
		for _, r := range all.RetiredNames() {
			recorded[r.BlobName] = true
		}
	}
	for info, err := range blobs.List(ctx, store.ListBlobsParams{}) {
		switch {
		case err != nil:
			return append(problems, fmt.Errorf("list the container: %w", err))
		case strings.HasPrefix(info.Name, store.ReservedPrefix), named[info.Name], recorded[info.Name]:
		case !shows && info.Sealed:
		case info.IntentID == "":
			problems = append(problems, fmt.Errorf("blob %q bears no intent and no object names it", info.Name))
		default:
			problems = append(problems, checkUnnamed(ctx, rows, info)...)
		}
	}
	return problems
}

// checkUnnamed asks whether the intent of a blob that no object names will
// still see to it.
func checkUnnamed(ctx context.Context, rows store.RowStore, info store.BlobInfo) []error {
	intents, err := rows.GetIntents(ctx, []string{info.IntentID})
	switch {
	case err != nil:
		return []error{fmt.Errorf("read intent %s: %w", info.IntentID, err)}
	case len(intents) == 0:
		return []error{fmt.Errorf("orphan: nothing names blob %q (of object %q)", info.Name, info.Key)}
	case intents[0].Committed():
		return []error{fmt.Errorf("orphan: blob %q (of object %q) was committed once and nothing names it now", info.Name, info.Key)}
	}
	return nil
}

const checkPage = 500

func checkObjects(ctx context.Context, rows store.RowStore, blobs store.BlobStore) (named map[string]bool, problems []error) {
	named = make(map[string]bool)
	for after := ""; ; {
		page, err := rows.ListObjects(ctx, store.ListParams{After: after, Limit: checkPage})
		if err != nil {
			return named, append(problems, fmt.Errorf("list objects: %w", err))
		}
		for i := range page {
			after = page[i].Key
			named[page[i].Blob.Name] = true
			if err := checkObject(ctx, blobs, &page[i]); err != nil {
				problems = append(problems, fmt.Errorf("object %q: %w", page[i].Key, err))
			}
		}
		if len(page) < checkPage {
			return named, problems
		}
	}
}

func checkObject(ctx context.Context, blobs store.BlobStore, o *store.Object) error {
	body, err := blobs.Open(ctx, store.OpenParams{Name: o.Blob.Name, ETag: o.Blob.ETag, Count: -1})
	switch {
	case errors.Is(err, store.ErrBlobNotFound):
		return fmt.Errorf("dangling: blob %q is not there", o.Blob.Name)
	case errors.Is(err, store.ErrConflict):
		return fmt.Errorf("dangling: blob %q has another ETag than the row's", o.Blob.Name)
	case err != nil:
		return fmt.Errorf("open blob %q: %w", o.Blob.Name, err)
	}
	defer body.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, body)
	if err != nil {
		return fmt.Errorf("read blob %q: %w", o.Blob.Name, err)
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	if size != o.Blob.Size || o.Blob.SHA256 != "" && sum != o.Blob.SHA256 {
		return fmt.Errorf("blob %q has %d bytes %s, the row says %d bytes %s", o.Blob.Name, size, sum, o.Blob.Size, o.Blob.SHA256)
	}
	return nil
}
