package store

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// never is a version that no object has: the last of all. Versions are a clock's
// milliseconds and random bits, and 63 bits of them end in the year 2109.
const never = Version(math.MaxInt64)

// ETag returns the version as a strong entity tag, in quotes, for the ETag
// header (RFC 9110, section 8.8.3). Strong is right: one version has one
// sequence of bytes, and no two objects of a key ever share one. The tag tells
// nothing about another key.
func (v Version) ETag() string { return `"` + v.String() + `"` }

// ParseETag accepts what ETag wrote for a version that an object can have.
// Anything else is ErrInvalid: a weak tag, a tag that another made, a list, "*".
func ParseETag(s string) (Version, error) {
	tag, rest, err := cutTag(s)
	if v := tag.version(); err == nil && rest == "" && !tag.weak && v > 0 {
		return v, nil
	}
	return 0, fmt.Errorf("entity tag %.40q is not a strong one of a version: %w", s, ErrInvalid)
}

// ParseIfMatch makes the condition for a change out of an If-Match header (RFC
// 9110, section 13.1.1): IfExists for "*", else IfVersion of the members that
// can match. By strong comparison a weak tag never does, and neither does one
// that another server made. If no member can match, the condition is one that
// no object fulfils, so that the change ends in the conflict that the client is
// to be told, 412 with the current object, by the way of any other.
//
// ErrInvalid, the client's mistake (400): an empty header or list, what is not
// in the header's grammar, and more than 16 different versions. A header that
// was not sent is not an empty one: look first. One that was sent in several
// lines is their values joined by commas.
func ParseIfMatch(header string) (Condition, error) {
	if strings.Trim(header, ows) == "*" {
		return IfExists(), nil
	}
	tags, err := parseTags("If-Match", header)
	if err != nil {
		return IfVersion(never), err
	}
	var versions []Version
	for _, tag := range tags {
		if v := tag.version(); v > 0 && !tag.weak && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	switch {
	case len(versions) == 0:
		return IfVersion(never), nil
	case len(versions) > MaxVersions:
		return IfVersion(never), fmt.Errorf("If-Match lists %d versions, at most %d are taken: %w", len(versions), MaxVersions, ErrInvalid)
	}
	return IfVersion(versions...), nil
}

// NoneMatch reports whether an If-None-Match header holds for an object at this
// version, 0 standing for no object (RFC 9110, section 13.1.2): "*" holds when
// there is none, a list when no member is equal by weak comparison. Where it
// does not hold, a read is answered with 304 and anything else with 412.
// http.ServeContent does the same for reads; a create with "*" is a Put with
// IfAbsent, which leaves no race.
//
// What ParseIfMatch would refuse is ErrInvalid, but for the number of versions.
// The answer beside an error is true: whoever ignores the error sends the whole.
func (v Version) NoneMatch(header string) (bool, error) {
	if strings.Trim(header, ows) == "*" {
		return v == 0, nil
	}
	tags, err := parseTags("If-None-Match", header)
	if err != nil {
		return true, err
	}
	return v == 0 || !slices.ContainsFunc(tags, func(t entityTag) bool { return t.version() == v }), nil
}

// ows is what may stand around the members of a list (RFC 9110, section 5.6.3).
const ows = " \t"

// entityTag is one member of a list.
type entityTag struct {
	weak   bool
	opaque string // without the quotes
}

// version is the version that the tag names, 0 if it names none.
func (t entityTag) version() Version {
	var v Version
	if err := v.UnmarshalText([]byte(t.opaque)); err != nil {
		return 0
	}
	return v
}

// parseTags reads a list of entity tags. Empty members are allowed beside
// others (RFC 9110, section 5.6.1.2).
func parseTags(name, header string) ([]entityTag, error) {
	var tags []entityTag
	for rest := header; ; {
		if rest = strings.TrimLeft(rest, ows+","); rest == "" {
			break
		}
		tag, after, err := cutTag(rest)
		if err != nil {
			return nil, fmt.Errorf("%s %.80q: %w", name, header, err)
		}
		tags = append(tags, tag)
		if rest = strings.TrimLeft(after, ows); rest != "" && rest[0] != ',' {
			return nil, fmt.Errorf("%s %.80q: no comma between two entity tags: %w", name, header, ErrInvalid)
		}
	}
	if len(tags) == 0 {
		return nil, fmt.Errorf("%s %.80q has no entity tag: %w", name, header, ErrInvalid)
	}
	return tags, nil
}

// cutTag reads the entity tag that s begins with. Inside its quotes anything
// visible stands for itself: a comma ends no member, a backslash escapes
// nothing (RFC 9110, section 8.8.3).
func cutTag(s string) (tag entityTag, rest string, err error) {
	s, tag.weak = strings.CutPrefix(s, "W/")
	opaque, opened := strings.CutPrefix(s, `"`)
	end := strings.IndexByte(opaque, '"')
	if !opened || end < 0 {
		return entityTag{}, "", fmt.Errorf("an entity tag is text in double quotes: %w", ErrInvalid)
	}
	tag.opaque, rest = opaque[:end], opaque[end+1:]
	for i := range len(tag.opaque) {
		if c := tag.opaque[i]; c <= ' ' || c == 0x7f {
			return entityTag{}, "", fmt.Errorf("an entity tag with a space or a control character: %w", ErrInvalid)
		}
	}
	return tag, rest, nil
}
