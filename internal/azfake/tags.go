package azfake

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// checkTags follows the limits of "Set Blob Tags", REST reference.
func checkTags(tags map[string]string) error {
	if len(tags) > 10 {
		return errors.New("a blob has at most 10 tags")
	}
	for k, v := range tags {
		switch n := utf8.RuneCountInString(k); {
		case n < 1 || n > 128:
			return errors.New("a tag key has 1 to 128 characters")
		case utf8.RuneCountInString(v) > 256:
			return errors.New("a tag value has at most 256 characters")
		case strings.IndexFunc(k+v, notInTag) >= 0:
			return fmt.Errorf("a tag holds letters, digits, space and + - . / : = _, not %q", k+"="+v)
		}
	}
	return nil
}

func notInTag(r rune) bool {
	switch {
	case r < utf8.RuneSelf && isLetter(byte(r)), r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune(" +-./:=_", r)
}

// tagsHeader reads x-ms-tags, which is written like a URL query.
func tagsHeader(h http.Header) (map[string]string, *refusal) {
	v := h.Get("x-ms-tags")
	if v == "" {
		return nil, nil
	}
	query, err := url.ParseQuery(v)
	if err != nil {
		return nil, errHeader("x-ms-tags", err.Error())
	}
	tags := make(map[string]string, len(query))
	for k, values := range query {
		if len(values) > 1 {
			return nil, errHeader("x-ms-tags", "a tag key appears twice")
		}
		tags[k] = values[0]
	}
	if err := checkTags(tags); err != nil {
		return nil, errHeader("x-ms-tags", err.Error())
	}
	return tags, nil
}

// tagDocument is the body of Get Blob Tags and Set Blob Tags.
type tagDocument struct {
	XMLName xml.Name `xml:"Tags"`
	Tags    []struct {
		Key   *string `xml:"Key"`
		Value *string `xml:"Value"`
	} `xml:"TagSet>Tag"`
}

func parseTagDocument(raw []byte) (map[string]string, *refusal) {
	var doc tagDocument
	if err := xml.Unmarshal(raw, &doc); err != nil {
		return nil, errXML(err.Error())
	}
	tags := make(map[string]string, len(doc.Tags))
	for _, t := range doc.Tags {
		if t.Key == nil || t.Value == nil {
			return nil, refuse(http.StatusBadRequest, "MissingRequiredXmlNode", "a tag needs a key and a value")
		}
		if _, twice := tags[*t.Key]; twice {
			return nil, refuse(http.StatusBadRequest, "InvalidXmlNodeValue", "a tag key appears twice")
		}
		tags[*t.Key] = *t.Value
	}
	if err := checkTags(tags); err != nil {
		return nil, refuse(http.StatusBadRequest, "InvalidXmlNodeValue", err.Error())
	}
	return tags, nil
}

func renderTags(tags map[string]string) string {
	var b strings.Builder
	b.WriteString("<Tags><TagSet>")
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		b.WriteString("<Tag><Key>" + escapeXML(k) + "</Key><Value>" + escapeXML(tags[k]) + "</Value></Tag>")
	}
	b.WriteString("</TagSet></Tags>")
	return b.String()
}

// getTags follows "Get Blob Tags", REST reference.
func (s *Server) getTags(c *call) *reply {
	cond, bad := tagConditions(c.header)
	if bad != nil {
		return bad.reply()
	}
	b, bad := s.readable(c, cond)
	if bad != nil {
		return bad.reply()
	}
	return answer(http.StatusOK).xml(renderTags(b.current.tags))
}

// setTags follows "Set Blob Tags", REST reference. Neither the entity tag nor
// the time of the last change moves.
func (s *Server) setTags(c *call) *reply {
	tags, bad := parseTagDocument(c.raw)
	if bad != nil {
		return bad.reply()
	}
	cond, bad := tagConditions(c.header)
	if bad != nil {
		return bad.reply()
	}
	_, b, bad := s.writable(c, cond)
	if bad != nil {
		return bad.reply()
	}
	v := *b.current
	v.tags = tags
	b.current = &v
	return answer(http.StatusNoContent)
}

// refuseTagsOnHierarchical answers whatever names a tag on an account with a
// hierarchical namespace, where tags do not exist ("Blob Storage feature
// support in Azure Storage accounts").
func (s *Server) refuseTagsOnHierarchical(c *call) *refusal {
	if !s.opts.Hierarchical {
		return nil
	}
	if c.op == OpGetTags || c.op == OpSetTags {
		return errQuery("comp", "tags: the account has a hierarchical namespace")
	}
	for _, name := range []string{"x-ms-tags", "x-ms-if-tags", "x-ms-source-if-tags"} {
		if c.header.Get(name) != "" {
			return refuse(http.StatusConflict, "FeatureNotYetSupportedForHierarchicalNamespaceAccounts",
				name+" is not supported for accounts with a hierarchical namespace.")
		}
	}
	return nil
}
