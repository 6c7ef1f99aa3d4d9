package azfake

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// checkSAS verifies a shared access signature and returns what it grants:
// "Create a service SAS" and "Create an account SAS", REST reference. Without
// an account key the signature counts as valid; the rest is checked all the
// same. IP range and protocol are signed and not enforced, since tests have
// neither. Stored access policies and user delegation are refused.
func (s *Server) checkSAS(q url.Values, at address, now time.Time) (grant, *refusal) {
	if q.Get("si") != "" || q.Get("skoid") != "" {
		return grant{}, errAuthentication("azfake knows neither stored access policies nor user delegation keys")
	}
	account := q.Get("ss") != ""
	text, bad := s.serviceText(q, at)
	if account {
		text, bad = s.accountText(q), nil
	}
	if bad != nil {
		return grant{}, bad
	}
	if len(s.key) > 0 && !sameSignature(q.Get("sig"), s.sign(text)) {
		return grant{}, errAuthentication("the signature of the SAS does not match")
	}
	if bad := validNow(q, now); bad != nil {
		return grant{}, bad
	}
	if account {
		if bad := accountCovers(q, at); bad != nil {
			return grant{}, bad
		}
	}
	return grant{perms: q.Get("sp"), account: account}, nil
}

// serviceText is the string to sign of a service SAS. What the SAS is for is
// part of it: for another blob or container it does not match.
func (s *Server) serviceText(q url.Values, at address) (string, *refusal) {
	name := "/blob/" + s.opts.Account + "/" + at.container
	switch q.Get("sr") {
	case "c":
	case "b":
		if at.blob == "" {
			return "", errAuthentication("a SAS for a blob does not cover its container")
		}
		name += "/" + at.blob
	default:
		return "", errAuthentication("sr is neither c nor b")
	}
	fields := []string{
		q.Get("sp"), q.Get("st"), q.Get("se"), name, q.Get("si"),
		q.Get("sip"), q.Get("spr"), q.Get("sv"), q.Get("sr"), "",
	}
	if hasScope(q) {
		fields = append(fields, q.Get("ses"))
	}
	fields = append(fields, q.Get("rscc"), q.Get("rscd"), q.Get("rsce"), q.Get("rscl"), q.Get("rsct"))
	return strings.Join(fields, "\n"), nil
}

func (s *Server) accountText(q url.Values) string {
	fields := []string{
		s.opts.Account, q.Get("sp"), q.Get("ss"), q.Get("srt"), q.Get("st"),
		q.Get("se"), q.Get("sip"), q.Get("spr"), q.Get("sv"),
	}
	if hasScope(q) {
		fields = append(fields, q.Get("ses"))
	}
	return strings.Join(append(fields, ""), "\n")
}

// hasScope says whether the SAS signs an encryption scope, as all do since
// version 2020-12-06.
func hasScope(q url.Values) bool { return q.Get("sv") >= "2020-12-06" }

func validNow(q url.Values, now time.Time) *refusal {
	end, ok := sasTime(q.Get("se"))
	if !ok || !now.Before(end) {
		return errAuthentication("the SAS has expired: " + q.Get("se"))
	}
	if st := q.Get("st"); st != "" {
		if start, ok := sasTime(st); !ok || now.Before(start) {
			return errAuthentication("the SAS is not valid yet: " + st)
		}
	}
	return nil
}

func sasTime(v string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z", "2006-01-02"} {
		if t, err := time.Parse(layout, v); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func accountCovers(q url.Values, at address) *refusal {
	kind := "o"
	switch {
	case at.container == "":
		kind = "s"
	case at.blob == "":
		kind = "c"
	}
	if !strings.Contains(q.Get("ss"), "b") {
		return refuse(http.StatusForbidden, "AuthorizationServiceMismatch", "This request is not authorized to perform this operation using this service.")
	}
	if !strings.Contains(q.Get("srt"), kind) {
		return refuse(http.StatusForbidden, "AuthorizationResourceTypeMismatch", "This request is not authorized to perform this operation using this resource type.")
	}
	return nil
}
