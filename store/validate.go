package store

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what every supported database and the blob service can hold.
const (
	MaxKey            = 700      // bytes of an object key
	MaxIdempotencyKey = 255      // bytes
	MaxBlobName       = 1024     // characters: Blob Storage, "Naming and referencing containers, blobs, and metadata"
	MaxBlobNameBytes  = 1600     // of UTF-8, which every database can index: SQL Server takes 1,700 with what stands beside it, PostgreSQL 2,704
	MaxMetadata       = 16 << 10 // bytes of all names and values of an object's metadata together
	MaxContentType    = 255      // bytes
)

// ValidateKey returns ErrInvalid for an object key that some database would
// refuse, cut or take for another: it must be valid UTF-8 of 1 to 700 bytes,
// without NUL and without a trailing space.
func ValidateKey(key string) error { return validateText("key", key, MaxKey) }

// ValidateIdempotencyKey is ValidateKey for an idempotency key, of at most 255
// bytes; empty means none and is valid.
func ValidateIdempotencyKey(key string) error {
	if key == "" {
		return nil
	}
	return validateText("idempotency key", key, MaxIdempotencyKey)
}

func validateText(what, s string, limit int) error {
	reason := ""
	switch {
	case s == "":
		reason = "is empty"
	case len(s) > limit:
		reason = fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), limit)
	case !utf8.ValidString(s):
		reason = "is not valid UTF-8"
	case strings.IndexByte(s, 0) >= 0:
		reason = "contains NUL"
	case s[len(s)-1] == ' ':
		reason = "ends in a space, which some databases ignore"
	default:
		return nil
	}
	return fmt.Errorf("%s %.60q %s: %w", what, s, reason, ErrInvalid)
}

// ValidateMetadata returns ErrInvalid for metadata that cannot be carried: a
// name that is empty, anything that is not valid UTF-8 or contains NUL, more
// than 16 KiB in all.
func ValidateMetadata(m map[string]string) error {
	total := 0
	for name, value := range m {
		total += len(name) + len(value)
		switch {
		case name == "":
			return fmt.Errorf("metadata with an empty name: %w", ErrInvalid)
		case !utf8.ValidString(name) || !utf8.ValidString(value):
			return fmt.Errorf("metadata %.60q is not valid UTF-8: %w", name, ErrInvalid)
		case strings.IndexByte(name, 0) >= 0 || strings.IndexByte(value, 0) >= 0:
			return fmt.Errorf("metadata %.60q contains NUL: %w", name, ErrInvalid)
		}
	}
	if total > MaxMetadata {
		return fmt.Errorf("metadata has %d bytes, at most %d are allowed: %w", total, MaxMetadata, ErrInvalid)
	}
	return nil
}

// ValidateBlobName returns ErrInvalid for a name that Blob Storage would refuse
// or change, or some database could not index: it must be valid UTF-8 of 1 to
// 1,024 characters and at most 1,600 bytes, without control characters (C0, C1
// and delete), U+FFFE, U+FFFF or backslashes, must not begin or end with a slash
// nor end with a dot, has no empty, "." or ".." segment and at most 254
// segments, and is not under ReservedPrefix.
func ValidateBlobName(name string) error {
	reason := ""
	switch {
	case name == "":
		reason = "is empty"
	case !utf8.ValidString(name):
		reason = "is not valid UTF-8"
	case utf8.RuneCountInString(name) > MaxBlobName:
		reason = fmt.Sprintf("has more than %d characters", MaxBlobName)
	case len(name) > MaxBlobNameBytes:
		reason = fmt.Sprintf("has more than %d bytes", MaxBlobNameBytes)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == 0xfffe || r == 0xffff }):
		reason = "contains a control character, a backslash, U+FFFE or U+FFFF"
	case strings.HasSuffix(name, "."):
		reason = "ends in a dot"
	case strings.HasPrefix(name, ReservedPrefix):
		reason = "is under the reserved prefix " + ReservedPrefix
	case strings.Count(name, "/") > 253:
		reason = "has more than 254 segments"
	default:
		for segment := range strings.SplitSeq(name, "/") {
			if segment == "" || segment == "." || segment == ".." {
				reason = "has an empty or relative segment"
			}
		}
	}
	if reason == "" {
		return nil
	}
	return fmt.Errorf("blob name %.60q %s: %w", name, reason, ErrInvalid)
}

// ValidateContentType returns ErrInvalid for a content type that cannot be a
// header value: printable ASCII, at most 255 bytes; empty is valid.
func ValidateContentType(s string) error {
	if len(s) > MaxContentType || strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e }) || strings.TrimSpace(s) != s {
		return fmt.Errorf("content type %.60q must be at most %d printable ASCII characters: %w", s, MaxContentType, ErrInvalid)
	}
	return nil
}

// ValidateSHA256 returns ErrInvalid for text that is not the lower-case hex of
// 32 bytes; empty means unknown and is valid.
func ValidateSHA256(s string) error {
	if s == "" {
		return nil
	}
	if b, err := hex.DecodeString(s); err != nil || len(b) != 32 || strings.ToLower(s) != s {
		return fmt.Errorf("SHA-256 %.70q must be 64 lower-case hex digits: %w", s, ErrInvalid)
	}
	return nil
}
