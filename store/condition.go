package store

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxVersions is how many versions one condition may list.
const MaxVersions = 16

// Condition is what an object must be for a change to take place. The zero
// value is IfAbsent. Conditions compare with ==.
type Condition struct {
	// expect is the text form, "" for absent, so that the zero value is the
	// safe one and a struct holding a Condition stays comparable.
	expect string
}

const (
	absentText  = "absent"
	existsText  = "exists"
	alwaysText  = "always"
	invalidText = "invalid"
)

// IfAbsent holds when there is no object: create-only. It is the zero value.
func IfAbsent() Condition { return Condition{} }

// IfExists holds when there is an object, whatever its version.
func IfExists() Condition { return Condition{existsText} }

// Always holds in every case: the client wins.
func Always() Condition { return Condition{alwaysText} }

// IfVersion holds when the object has one of these versions, at most 16 of
// them. A condition with none, too many, or one that is not positive is
// refused with ErrInvalid wherever it is used.
func IfVersion(v ...Version) Condition {
	if len(v) == 0 || len(v) > MaxVersions {
		return Condition{invalidText}
	}
	var b strings.Builder
	for i, one := range v {
		if one <= 0 {
			return Condition{invalidText}
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(one.String())
	}
	return Condition{b.String()}
}

// String returns the form that MarshalText writes: "absent", "exists",
// "always", or versions separated by commas. Stores keep this text.
func (c Condition) String() string {
	if c.expect == "" {
		return absentText
	}
	return c.expect
}

// MarshalText writes the form of String, so that a condition survives JSON and
// a queue. A condition that Validate refuses is ErrInvalid.
func (c Condition) MarshalText() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return []byte(c.String()), nil
}

// UnmarshalText accepts what MarshalText wrote; anything else is ErrInvalid.
func (c *Condition) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case absentText:
		*c = Condition{}
	case existsText, alwaysText:
		*c = Condition{s}
	default:
		var versions []Version
		for part := range strings.SplitSeq(s, ",") {
			var v Version
			if err := v.UnmarshalText([]byte(part)); err != nil || len(versions) == MaxVersions {
				return fmt.Errorf("condition %.40q: %w", s, ErrInvalid)
			}
			versions = append(versions, v)
		}
		parsed := IfVersion(versions...)
		if err := parsed.Validate(); err != nil {
			return err
		}
		*c = parsed
	}
	return nil
}

// Validate returns ErrInvalid for a condition that cannot hold for any object:
// IfVersion of nothing, of zero, or of more than 16.
func (c Condition) Validate() error {
	if c.expect == invalidText {
		return fmt.Errorf("condition: IfVersion takes 1 to %d positive versions: %w", MaxVersions, ErrInvalid)
	}
	return nil
}

// Versions returns the versions of an IfVersion condition, nil for the others.
func (c Condition) Versions() []Version {
	switch c.expect {
	case "", existsText, alwaysText, invalidText:
		return nil
	}
	var versions []Version
	for part := range strings.SplitSeq(c.expect, ",") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil
		}
		versions = append(versions, Version(n))
	}
	return versions
}

// Holds reports whether an object satisfies the condition; nil means that
// there is no object.
func (c Condition) Holds(current *Object) bool {
	switch c.expect {
	case "":
		return current == nil
	case existsText:
		return current != nil
	case alwaysText:
		return true
	case invalidText:
		return false
	}
	if current == nil {
		return false
	}
	want := current.Version.String()
	for part := range strings.SplitSeq(c.expect, ",") {
		if part == want {
			return true
		}
	}
	return false
}
