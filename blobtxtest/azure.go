package blobtxtest

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/internal/azsteps"
	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/faultstore"
)

// Azure is the world of package azstore over an Azure Blob Storage server in
// the test's own process, without sockets: every HTTP request is a step, also
// those that the SDK makes by itself when it tries again. Rows are in memory, as
// in Memory. Bodies above 64 KiB go up in blocks. Its executions are
// slower than Memory's: thousands.
func Azure() World { return azure{} }

// azureBlockSize is the BlockSize of the stores of an Azure world, in bytes.
const azureBlockSize = 64 << 10

const azureContainer = "explored"

type azure struct{}

func (azure) open(*execution) (place, error) {
	a := &azurePlace{server: azfake.New(nil)}
	a.openRows()
	a.server.MakeContainer(azureContainer)
	var err error
	a.blobs, err = a.store(nil)
	return a, err
}

// azurePlace has its rows and their transactions from a memoryPlace.
type azurePlace struct {
	memoryPlace
	server *azfake.Server
	blobs  store.BlobStore
	tags   digest // of all blobs at the last look
}

// store returns the blob store of one process.
func (a *azurePlace) store(in faultstore.Injector) (store.BlobStore, error) {
	client, err := azsteps.Client(a.server, azureContainer, in)
	if err != nil {
		return nil, err
	}
	s, err := azstore.New(client, &azstore.Options{BlockSize: azureBlockSize, Concurrency: 2})
	return known{s}, err
}

// known is a store over an account that needs no Probe at the start of every
// process: of about 30 requests.
type known struct{ *azstore.Store }

func (known) Probe(context.Context) error { return nil }

func (a *azurePlace) calm() (store.RowStore, store.BlobStore) { return a.rows, a.blobs }

func (a *azurePlace) join(p *Process, r *running) (err error) {
	p.Rows = faultstore.Rows(a.rows, r.faulty)
	p.Blobs, err = a.store(r.faulty)
	return err
}

func (a *azurePlace) look(s *snapshot) error {
	a.lookAtRows(s)
	blobs := a.server.InspectFacts(azureContainer)
	s.blobs, a.tags = s.blobs[:0], digest{}
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		s.blobs = append(s.blobs, azureBlob(name, blobs[name]))
		a.tags.text(name)
		a.tags.metadata(blobs[name].Tags)
	}
	return nil
}

// azureBlob is what package azstore's Stat would say. The names are a contract:
// what is in a container outlives the code that put it there.
func azureBlob(name string, b azfake.Blob) store.BlobInfo {
	plain := func(s string) string {
		if t, err := url.PathUnescape(s); err == nil {
			return t
		}
		return s
	}
	return store.BlobInfo{
		Blob: store.Blob{
			Name: name, ETag: b.ETag, Size: b.Size, ContentType: b.ContentType, SHA256: b.Metadata["blobtx_sha256"],
		},
		IntentID:  b.Metadata["blobtx_intent"],
		Key:       plain(b.Metadata["blobtx_key"]),
		Base:      plain(b.Metadata["blobtx_base"]),
		Sealed:    b.Tags["state"] == "committed",
		CreatedAt: b.CreatedAt,
	}
}

func (a *azurePlace) contents() (map[string][]byte, error) {
	out := make(map[string][]byte)
	for name, b := range a.server.Inspect(azureContainer) {
		out[name] = b.Data
	}
	return out, nil
}

// hider is a place with state that no look shows.
type hider interface{ hidden(d *digest) }

// hidden digests the tags, on which guards are judged, and the staged blocks. A
// block's id names its bytes.
func (a *azurePlace) hidden(d *digest) {
	d.sub(a.tags)
	staged := a.server.StagedBlocks(azureContainer)
	for _, name := range slices.Sorted(maps.Keys(staged)) {
		d.text(name)
		for _, id := range staged[name] {
			d.text(id)
		}
	}
	d.word(uint64(len(staged)))
}

// azure digests the answer to a request: all of it, but what is different each
// time.
func (h *hasher) azure(d *digest, r *azsteps.Reply) {
	d.word(uint64(r.Status))
	etag := r.Header.Get("ETag")
	if etag != "" {
		h.creation(r.Blob, etag)
		h.etag(d, etag)
	}
	var sum digest
	for name, values := range r.Header {
		switch name {
		case "Etag", "Date", "X-Ms-Client-Request-Id", "X-Ms-Request-Id":
			continue
		}
		if r.Op == azfake.OpBatch && name == "Content-Type" { // the boundary
			continue
		}
		var one digest
		one.text(name)
		one.text(strings.Join(values, ","))
		sum.plus(one)
	}
	d.sub(sum)
	switch r.Op {
	case azfake.OpBatch:
		azureBatch(d, string(r.Body))
	case azfake.OpList, azfake.OpUnsupported: // with ETags inside
		h.opaque = true
	default:
		d.text(string(r.Body))
	}
}

// azureBatch digests what became of each part.
func azureBatch(d *digest, body string) {
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		switch {
		case strings.HasPrefix(line, "HTTP/"), name == "content-id", name == "x-ms-error-code":
			d.text(line)
		}
	}
}
