package azfake

import (
	"net/http"
	"strings"
)

// metadataOf reads the x-ms-meta- headers: "Setting and retrieving properties
// and metadata", REST reference. Names are kept in lower case, since HTTP in Go
// does not carry their case. Nil means that the request names none.
func metadataOf(h http.Header) (map[string]string, *refusal) {
	var m map[string]string
	size := 0
	for name, values := range h {
		lower := strings.ToLower(name)
		key, ok := strings.CutPrefix(lower, "x-ms-meta-")
		if !ok {
			continue
		}
		if key == "" {
			return nil, refuse(http.StatusBadRequest, "EmptyMetadataKey", "The key for one of the metadata key-value pairs is empty.")
		}
		value := strings.Join(values, ",")
		if !isIdentifier(key) || strings.IndexFunc(value, notASCII) >= 0 {
			return nil, refuse(http.StatusBadRequest, "InvalidMetadata",
				"metadata names are identifiers and values are ASCII: "+key)
		}
		if m == nil {
			m = map[string]string{}
		}
		m[key] = value
		size += len(key) + len(value)
	}
	if size > 8<<10 {
		return nil, refuse(http.StatusBadRequest, "MetadataTooLarge", "The size of the specified metadata exceeds the maximum size permitted.")
	}
	return m, nil
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		digit := s[i] >= '0' && s[i] <= '9'
		if s[i] != '_' && !isLetter(s[i]) && (!digit || i == 0) {
			return false
		}
	}
	return true
}

func notASCII(r rune) bool { return r > 0x7e }

func setMetadataHeaders(r *reply, m map[string]string) {
	for k, v := range m {
		r.set("x-ms-meta-"+k, v)
	}
}
