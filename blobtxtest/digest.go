package blobtxtest

import (
	"errors"
	"math/bits"
	"time"

	"github.com/blobtx/blobtx/internal/azsteps"
	"github.com/blobtx/blobtx/store"
)

// digest is a 128-bit hash of fields, written by hand: it is computed at every
// decision of every execution. It is no defence against an adversary, only
// against chance: two different states must not be taken for one.
type digest struct{ a, b uint64 }

func (d *digest) word(x uint64) {
	d.a = fold(d.a^x^0xa0761d6478bd642f, d.b^0xe7037ed1a0b428db)
	d.b = fold(d.b^bits.RotateLeft64(x, 29)^0x8ebc6af09c88c6e3, 0x589965cc75374cc3) + d.a
}

func fold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

func (d *digest) text(s string) {
	d.word(uint64(len(s)))
	for ; len(s) >= 8; s = s[8:] {
		d.word(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56)
	}
	if len(s) > 0 {
		var x uint64
		for i := range len(s) {
			x |= uint64(s[i]) << (8 * i)
		}
		d.word(x)
	}
}

func (d *digest) yes(b bool) {
	if b {
		d.word(1)
	} else {
		d.word(2)
	}
}

func (d *digest) time(t time.Time) {
	if t.IsZero() {
		d.word(1)
		return
	}
	d.word(uint64(t.UnixMicro()))
}

func (d *digest) sub(o digest) {
	d.word(o.a)
	d.word(o.b)
}

// plus adds o without regard to order: for sets.
func (d *digest) plus(o digest) {
	d.a += o.a
	d.b += o.b
}

func (d *digest) metadata(m map[string]string) {
	var sum digest
	for k, v := range m {
		var one digest
		one.text(k)
		one.text(v)
		sum.plus(one)
	}
	d.word(uint64(len(m)))
	d.sub(sum)
}

// hasher digests rows and replies. ETags are opaque and only ever compared, so
// each is digested as which creation of its name it is from: two orders of two
// uploads lead to one state.
type hasher struct {
	etags   map[string]digest
	created map[string]uint64
	opaque  bool // a reply was met that cannot be digested: states must not be merged
}

func newHasher() *hasher {
	return &hasher{etags: make(map[string]digest), created: make(map[string]uint64)}
}

func (h *hasher) creation(name, etag string) {
	if _, known := h.etags[etag]; known {
		return
	}
	h.created[name]++
	var d digest
	d.text(name)
	d.word(h.created[name])
	h.etags[etag] = d
}

func (h *hasher) etag(d *digest, etag string) {
	if known, ok := h.etags[etag]; ok {
		d.sub(known)
		return
	}
	d.text(etag)
}

func (h *hasher) blob(d *digest, b *store.Blob) {
	d.text(b.Name)
	h.etag(d, b.ETag)
	d.word(uint64(b.Size))
	d.text(b.SHA256)
	d.text(b.ContentType)
}

func (h *hasher) info(d *digest, b *store.BlobInfo) {
	h.blob(d, &b.Blob)
	d.text(b.IntentID)
	d.text(b.Key)
	d.text(b.Base)
	d.yes(b.Sealed)
	d.time(b.CreatedAt)
}

func (h *hasher) object(d *digest, o *store.Object) {
	d.text(o.Key)
	d.word(uint64(o.Version))
	h.blob(d, &o.Blob)
	d.text(o.IntentID)
	d.metadata(o.Metadata)
	d.time(o.CreatedAt)
	d.time(o.UpdatedAt)
}

func (h *hasher) intent(d *digest, in *store.Intent) {
	d.text(in.ID)
	d.text(in.IdempotencyKey)
	d.text(in.Key)
	d.text(in.Expect.String())
	d.text(in.BlobName)
	d.yes(in.Direct)
	d.metadata(in.Metadata)
	d.text(string(in.State))
	d.word(uint64(in.Version))
	d.text(in.Holder)
	d.time(in.DueAt)
	d.time(in.ExpiresAt)
	d.time(in.CreatedAt)
	d.time(in.UpdatedAt)
	d.word(uint64(in.Beats))
	d.word(uint64(in.Attempts))
	d.text(in.LastError)
	d.yes(in.Watched)
	d.yes(in.Result != nil)
	if in.Result != nil {
		h.object(d, in.Result)
	}
}

func (h *hasher) retired(d *digest, r *store.Retired) {
	d.text(r.BlobName)
	d.text(r.IntentID)
	d.time(r.DueAt)
	d.word(uint64(r.Attempts))
	d.text(r.LastError)
	d.yes(r.Watched)
}

func (h *hasher) err(d *digest, err error) {
	if err == nil {
		d.word(0)
		return
	}
	d.text(err.Error())
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && conflict.Current != nil {
		h.object(d, conflict.Current)
	}
}

// reply digests what a step returned.
func (h *hasher) reply(d *digest, reply any) {
	switch v := reply.(type) {
	case nil:
		d.word(0)
	case int:
		d.word(uint64(v))
	case struct{}:
		d.word(3)
	case store.Intent:
		h.intent(d, &v)
	case store.Object:
		h.object(d, &v)
	case store.Blob:
		h.creation(v.Name, v.ETag)
		h.blob(d, &v)
	case store.BlobInfo:
		h.info(d, &v)
	case []store.Intent:
		for i := range v {
			h.intent(d, &v[i])
		}
	case []store.Object:
		for i := range v {
			h.object(d, &v[i])
		}
	case []error:
		for _, err := range v {
			h.err(d, err)
		}
	case store.Claimed:
		h.claimed(d, &v)
	case azsteps.Reply:
		h.azure(d, &v)
	case answer:
		v.digest(h, d)
	default:
		h.opaque = true
	}
}

func (h *hasher) claimed(d *digest, c *store.Claimed) {
	d.time(c.Now)
	d.word(uint64(len(c.Intents)))
	for i := range c.Intents {
		h.intent(d, &c.Intents[i])
	}
	for i := range c.Retired {
		h.retired(d, &c.Retired[i])
	}
}
