package azstore

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/blobtx/blobtx/store"
)

// The index tags of a blob, and their values.
const (
	tagState       = "state"
	tagIntent      = "intent"
	statePending   = "pending"
	stateCommitted = "committed"
)

// The metadata by which a blob describes itself.
const (
	metaIntent = "blobtx_intent"
	metaKey    = "blobtx_key"
	metaSHA256 = "blobtx_sha256"
	metaBase   = "blobtx_base"
)

const defaultContentType = "application/octet-stream"

// maxTagValue is in characters ("Set Blob Tags", REST reference).
const maxTagValue = 256

// checkIntent refuses an id that is not a tag value, that would end the quoted
// literal of a tag condition, or that is cut as the header value it also is.
func checkIntent(id string) error {
	if id == "" || len(id) > maxTagValue || strings.ContainsFunc(id, notInTag) || strings.Trim(id, " ") != id {
		return fmt.Errorf("intent id %.60q is not a tag value (1 to %d letters, digits, +-./:=_ and, but for its ends, spaces): %w",
			id, maxTagValue, store.ErrInvalid)
	}
	return nil
}

func notInTag(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune(" +-./:=_", r)
}

func tags(state, intentID string) map[string]string {
	return map[string]string{tagState: state, tagIntent: intentID}
}

// guard is the condition under which a blob of this intent may be changed. It
// travels alone: some servers drop a tag condition that comes beside others.
func guard(intentID string, pending bool) *blob.AccessConditions {
	where := fmt.Sprintf(`"%s" = '%s'`, tagIntent, intentID)
	if pending {
		where = fmt.Sprintf(`"%s" = '%s' AND %s`, tagState, statePending, where)
	}
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfTags: &where}}
}

// escape makes any text a header value: printable ASCII without a percent sign
// stays, every other byte is percent-encoded.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	plain := func(c byte) bool { return 0x20 < c && c < 0x7f && c != '%' }
	n := 0
	for i := range len(s) {
		if !plain(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 2*n)
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// unescape reverses escape; text that others wrote comes back as it is.
func unescape(s string) string {
	if t, err := url.PathUnescape(s); err == nil {
		return t
	}
	return s
}

// metadataOf is what goes up with the bytes.
func metadataOf(p store.CreateParams, sha256 string) map[string]*string {
	m := map[string]*string{metaIntent: &p.IntentID, metaSHA256: &sha256}
	if p.Key != "" {
		key := escape(p.Key)
		m[metaKey] = &key
	}
	if p.Base != "" {
		base := escape(p.Base)
		m[metaBase] = &base
	}
	return m
}

// describe fills in what the metadata says. The case of the names changes on
// the way, because they are header names.
func describe(info *store.BlobInfo, metadata map[string]*string) {
	for name, value := range metadata {
		if value == nil {
			continue
		}
		switch strings.ToLower(name) {
		case metaIntent:
			info.IntentID = *value
		case metaKey:
			info.Key = unescape(*value)
		case metaSHA256:
			info.SHA256 = *value
		case metaBase:
			info.Base = unescape(*value)
		}
	}
}
