package azstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/blobtx/blobtx/store"
)

const (
	probePrefix  = store.ReservedPrefix + "probe/"
	probeIntent  = "probe"
	probeOther   = "another"
	probeCleanup = 30 * time.Second
)

// Probe implements store.BlobStore. It first asks for each permission with
// requests that change nothing, and only if none is missing goes through the
// life of scratch blobs under the reserved prefix: create-only on both upload
// paths, reading, listing, guarded tags, guarded deletes, staged blocks
// cleared. It takes about 30 small requests and leaves nothing behind.
//
// Azurite ignores conditions on Set Blob Tags. Probe accepts that from a server
// that calls itself Azurite-Blob, so that it can be developed against, and
// from no other.
//
// Errors: store.ErrSetup, which names each lack and what gives it; when the
// service cannot be reached, that error as it is.
func (s *Store) Probe(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	p := &probe{s: s, name: s.prefix + probePrefix + strings.ToLower(rand.Text())}
	err := p.permissions(ctx)
	if err == nil && len(p.lacks) == 0 {
		err = p.behaviour(ctx)
	}
	if err != nil || len(p.lacks) == 0 {
		return err
	}
	return &failure{op: "probe", kind: store.ErrSetup, hint: strings.Join(p.lacks, "; "), cause: errors.Join(p.causes...)}
}

// probe is one Probe.
type probe struct {
	s        *Store
	name     string // of a blob that does not exist
	emulator bool

	lacks  []string
	causes []error
}

func (p *probe) lack(what string, cause error) {
	p.lacks = append(p.lacks, what)
	if cause != nil {
		p.causes = append(p.causes, cause)
	}
}

// permissions asks for everything on a name that does not exist. Any answer but
// a refusal says that the permission is there. An error is not about
// permissions and ends the probe.
func (p *probe) permissions(ctx context.Context) error {
	bb := p.s.c.NewBlockBlobClient(p.name)
	never := azcore.ETag(`"0x0"`) // If-Match on what is absent: nothing is written
	asks := []struct {
		what, needs string
		op          operation
		send        func(context.Context) error
	}{
		{"blobs cannot be listed", needsList, opList, func(ctx context.Context) error {
			one := int32(1)
			o := &container.ListBlobsFlatOptions{Prefix: &p.name, MaxResults: &one}
			_, err := p.s.c.NewListBlobsFlatPager(o).NextPage(ctx)
			return err
		}},
		{"blobs cannot be read", needsRead, opHead, func(ctx context.Context) error {
			_, err := bb.GetProperties(ctx, nil)
			return err
		}},
		{"blobs cannot be written", needsWrite, opPutList, func(ctx context.Context) error {
			_, err := bb.CommitBlockList(ctx, []string{}, &blockblob.CommitBlockListOptions{AccessConditions: &blob.AccessConditions{
				ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &never}}})
			return err
		}},
		{"blobs cannot be deleted", needsDelete, opDelete, func(ctx context.Context) error {
			_, err := bb.Delete(ctx, nil)
			return err
		}},
		{"index tags cannot be read", needsTags, opGetTags, func(ctx context.Context) error {
			_, err := bb.GetTags(ctx, nil)
			return err
		}},
		{"index tags cannot be set", needsTags, opSetTags, func(ctx context.Context) error {
			_, err := bb.SetTags(ctx, tags(statePending, probeIntent), nil)
			return err
		}},
	}
	for _, ask := range asks {
		var answer *http.Response
		err := ask.send(policy.WithCaptureResponse(ctx, &answer))
		if answer != nil && strings.HasPrefix(answer.Header.Get("Server"), "Azurite-Blob/") {
			p.emulator = true
		}
		if err == nil || isAbsent(err) || conditionFailed(err) {
			continue
		}
		aboutTags := ask.op == opGetTags || ask.op == opSetTags
		re := response(err)
		mapped := ask.op.fail(ctx, err)
		switch {
		case re == nil || re.StatusCode >= 500 || throttled(err):
			return mapped
		case isContainerGone(err) || re.StatusCode == http.StatusUnauthorized || re.ErrorCode == "AuthenticationFailed":
			return mapped // nothing else can be learned
		case re.StatusCode == http.StatusForbidden:
			p.lack(fmt.Sprintf("%s, which takes %s (%s)", ask.what, ask.needs, summary(re)), mapped)
		case aboutTags:
			p.lack(fmt.Sprintf("%s: they are not available on this account, as with a hierarchical namespace, and TagGuard needs them (%s)",
				ask.what, summary(re)), mapped)
		default:
			p.lack(fmt.Sprintf("%s (%s)", ask.what, summary(re)), mapped)
		}
	}
	return nil
}

// behaviour goes through everything that the protocol rests on. An error says
// that the service could not be asked, and ends the probe.
func (p *probe) behaviour(ctx context.Context) error {
	single, staged, cleared := p.name+"-1", p.name+"-2", p.name+"-3"
	clean := false
	defer func() {
		if !clean {
			p.remove(ctx, single, staged, cleared)
		}
	}()
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return p.create(ctx, single) },
		func(ctx context.Context) error { return p.read(ctx, single) },
		func(ctx context.Context) error { return p.list(ctx, single) },
		func(ctx context.Context) error { return p.seal(ctx, single) },
		func(ctx context.Context) error { return p.refuse(ctx, single) },
		func(ctx context.Context) error { return p.stage(ctx, staged) },
		func(ctx context.Context) error { return p.clear(ctx, cleared) },
		func(ctx context.Context) error { return p.delete(ctx, single, staged) },
	} {
		if err := step(ctx); err != nil {
			return err
		}
		if len(p.lacks) > 0 {
			return nil // what follows would only fail for the same reason
		}
	}
	clean = true
	return nil
}

// expect notes a lack if got is not one of want; nil stands for success. It
// returns got if no answer was had.
func (p *probe) expect(what string, got error, want ...error) error {
	for _, w := range want {
		if got == nil && w == nil || w != nil && errors.Is(got, w) {
			return nil
		}
	}
	re := response(got)
	if got != nil && !errors.Is(got, store.ErrSetup) && (re == nil || re.StatusCode >= 500 || throttled(got)) {
		return got
	}
	if got != nil {
		what += ": " + got.Error()
	}
	p.lack(what, got)
	return nil
}

func (p *probe) upload(ctx context.Context, full string) (*upload, error) {
	content := []byte(full)
	u, err := p.s.newUpload(full, store.CreateParams{
		Name: full, IntentID: probeIntent, Key: "probe",
		Body: store.NewBody(bytes.NewReader(content), int64(len(content)), ""),
	})
	if err != nil {
		return nil, err
	}
	return u, u.p.Body.Drain(ctx)
}

func (p *probe) create(ctx context.Context, full string) error {
	u, err := p.upload(ctx, full)
	if err != nil {
		return err
	}
	// ErrExists: the reply was lost and the SDK met its own first try.
	_, err = u.putBlob(ctx, []byte(full))
	if err := p.expect("a blob with index tags cannot be created", err, nil, store.ErrExists); err != nil {
		return err
	}
	_, err = u.putBlob(ctx, []byte(full))
	return p.expect("a create-only Put Blob replaced a blob", err, store.ErrExists)
}

func (p *probe) read(ctx context.Context, full string) error {
	head, err := p.s.c.NewBlobClient(full).GetProperties(ctx, nil)
	if err != nil {
		return p.expect("a blob just created cannot be read", opHead.fail(ctx, err))
	}
	var info store.BlobInfo
	describe(&info, head.Metadata)
	if info.IntentID != probeIntent {
		p.lack(fmt.Sprintf("the metadata of a blob did not come back (%s is %q)", metaIntent, info.IntentID), nil)
	}
	for _, try := range []struct {
		etag azcore.ETag
		want error
	}{{deref(head.ETag), nil}, {`"0x0"`, store.ErrConflict}} {
		r, err := p.s.open(ctx, full, store.OpenParams{ETag: string(try.etag), Count: -1})
		if err := p.expect("Get Blob with If-Match "+string(try.etag)+" of a blob that has "+string(deref(head.ETag)), err, try.want); err != nil {
			return err
		}
		if err != nil || r == nil {
			continue
		}
		got, err := io.ReadAll(r)
		_ = r.Close() // the bytes are here
		if err != nil {
			return err
		}
		if string(got) != full {
			p.lack("a blob just created has other bytes", nil)
		}
	}
	return nil
}

func (p *probe) list(ctx context.Context, full string) error {
	for info, err := range p.s.List(ctx, store.ListBlobsParams{Prefix: strings.TrimPrefix(full, p.s.prefix)}) {
		if err != nil {
			return p.expect("blobs cannot be listed with their tags", err)
		}
		if info.IntentID == probeIntent && !info.Sealed {
			return nil
		}
	}
	p.lack("a blob just created is not listed", nil)
	return nil
}

func (p *probe) seal(ctx context.Context, full string) error {
	want := []error{store.ErrGuardRefused}
	if p.emulator {
		want = append(want, nil)
	}
	err := p.s.setTags(ctx, full, probeOther, guard(probeOther, false))
	if err := p.expect("Set Blob Tags ignored its tag condition", err, want...); err != nil {
		return err
	}
	for range 2 { // again is no error
		err := p.s.setTags(ctx, full, probeIntent, guard(probeIntent, false))
		if err := p.expect("index tags cannot be set under a tag condition", err, nil); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) refuse(ctx context.Context, full string) error {
	for _, d := range []store.DeleteBlob{{IntentID: probeIntent, Pending: true}, {IntentID: probeOther}} {
		err := p.s.deleteFull(ctx, full, d)
		if err := p.expect("Delete Blob ignored its tag condition", err, store.ErrGuardRefused); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) stage(ctx context.Context, full string) error {
	u, err := p.upload(ctx, full)
	if err != nil {
		return err
	}
	_, err = u.putOneBlock(ctx, []byte(full))
	if err := p.expect("a blob cannot be created from blocks", err, nil, store.ErrExists); err != nil {
		return err
	}
	_, err = u.putList(ctx, []string{blockID(0, []byte(full))})
	return p.expect("a create-only Put Block List replaced a blob", err, store.ErrExists)
}

func (p *probe) clear(ctx context.Context, full string) error {
	block := &blockBody{data: []byte(full)}
	_, err := p.s.c.NewBlockBlobClient(full).StageBlock(ctx, blockID(0, block.data), block, nil)
	if err != nil {
		err = opPutBlock.fail(ctx, err)
	}
	if err := p.expect("a block cannot be staged", err, nil); err != nil {
		return err
	}
	// nil: the reply of the empty block list was lost.
	err = p.s.deleteFull(ctx, full, store.DeleteBlob{IntentID: probeIntent, Pending: true, ClearStaged: true})
	return p.expect("staged blocks cannot be cleared", err, store.ErrBlobNotFound, nil)
}

func (p *probe) delete(ctx context.Context, names ...string) error {
	var all []deletion
	for _, full := range names {
		all = append(all, deletion{full: full, DeleteBlob: store.DeleteBlob{IntentID: probeIntent}})
	}
	p.s.deleteAll(ctx, all)
	for i := range all {
		// ErrBlobNotFound: the reply was lost, and the blob is gone.
		if err := p.expect("blobs cannot be deleted under a tag condition", all[i].result(), nil, store.ErrBlobNotFound); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes what a probe that failed has left, whoever gave up waiting.
// The names are random, so no guard is needed.
func (p *probe) remove(ctx context.Context, names ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeCleanup)
	defer cancel()
	for _, full := range names {
		include := blob.DeleteSnapshotsOptionTypeInclude
		// There is nobody to tell: Probe reports what it found.
		_, _ = p.s.c.NewBlobClient(full).Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: &include})
	}
}
