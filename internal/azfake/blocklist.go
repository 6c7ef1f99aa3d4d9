package azfake

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Limits of "Put Block" and "Put Block List", REST reference.
const (
	maxBlocks   = 50_000
	maxUnlisted = 100_000
)

// putBlock follows "Put Block", REST reference. It takes no conditions but
// the lease.
func (s *Server) putBlock(c *call) *reply {
	if c.body.len() == 0 {
		return errHeader("Content-Length", "a block is not empty").reply()
	}
	if bad := s.stage(c, c.body); bad != nil {
		return bad.reply()
	}
	r := answer(http.StatusCreated).set("x-ms-request-server-encrypted", "true")
	if c.md5 != nil {
		r.set("Content-MD5", base64.StdEncoding.EncodeToString(c.md5))
	}
	return r
}

func (s *Server) stage(c *call, body content) *refusal {
	id := c.query.Get("blockid")
	raw, err := base64.StdEncoding.DecodeString(id)
	if err != nil || len(raw) == 0 || len(raw) > 64 {
		return refuse(http.StatusBadRequest, "InvalidBlockId", "a block id is the base64 of 1 to 64 bytes")
	}
	k, bad := s.container(c)
	if bad != nil {
		return bad
	}
	b := k.blobs[c.blob]
	if b == nil || b.current == nil {
		if c.header.Get("x-ms-lease-id") != "" {
			return errNoLease("Blob")
		}
	} else if bad := b.lease.allowsWrite(c, "Blob"); bad != nil {
		return bad
	}
	if b != nil && b.idLength() != 0 && b.idLength() != len(id) {
		return refuse(http.StatusBadRequest, "InvalidBlobOrBlock", "The specified blob or block content is invalid: all block ids of a blob have one length.")
	}
	if b != nil && len(b.staged) >= maxUnlisted {
		return refuse(http.StatusConflict, "BlockCountExceedsLimit", "The uncommitted block count cannot exceed the maximum limit of 100,000 blocks.")
	}
	b = k.entry(c.blob)
	b.keepBlock(id, body)
	b.touched, b.ghost = c.now, b.current == nil
	return nil
}

func (b *blobState) keepBlock(id string, body content) {
	if b.staged == nil {
		b.staged = map[string]block{}
	}
	if _, again := b.staged[id]; !again {
		b.order = append(b.order, id)
	}
	b.staged[id] = block{body}
}

// idLength is the length that the blob's block ids have, or 0.
func (b *blobState) idLength() int {
	if len(b.order) > 0 {
		return len(b.order[0])
	}
	if b.current != nil && len(b.current.blocks) > 0 {
		return len(b.current.blocks[0].id)
	}
	return 0
}

// listed is one entry of a block list: which list to look in, and the id.
type listed struct{ list, id string }

// parseBlockList reads the document in its own order, which is the blob's.
func parseBlockList(raw []byte) ([]listed, *refusal) {
	dec := xml.NewDecoder(bytes.NewReader(raw))
	var out []listed
	root := false
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			if !root {
				return nil, errXML("no BlockList")
			}
			return out, nil
		}
		if err != nil {
			return nil, errXML(err.Error())
		}
		start, ok := tok.(xml.StartElement)
		switch {
		case !ok:
		case !root:
			if root = start.Name.Local == "BlockList"; !root {
				return nil, errXML("the root is not BlockList")
			}
		case len(out) == maxBlocks:
			return nil, refuse(http.StatusBadRequest, "BlockListTooLong", "The block list may not contain more than 50,000 blocks.")
		default:
			var id string
			if err := dec.DecodeElement(&id, &start); err != nil {
				return nil, errXML(err.Error())
			}
			out = append(out, listed{start.Name.Local, strings.TrimSpace(id)})
		}
	}
}

// putBlockList follows "Put Block List", REST reference. Blocks that were
// staged and are not in the list are discarded.
func (s *Server) putBlockList(c *call) *reply {
	list, bad := parseBlockList(c.raw)
	if bad != nil {
		return bad.reply()
	}
	v, cond, bad := draft(c)
	if bad != nil {
		return bad.reply()
	}
	k, bad := s.creating(c, cond)
	if bad != nil {
		return bad.reply()
	}
	if bad := v.assemble(k.blobs[c.blob], list); bad != nil {
		return bad.reply()
	}
	s.commit(c, k, v)
	k.blobs[c.blob].unstage()
	return v.written(http.StatusCreated)
}

// assemble fills v with the listed blocks of b, which may be nil.
func (v *version) assemble(b *blobState, list []listed) *refusal {
	committed := b.committedBlocks()
	v.blocks = make([]namedBlock, 0, len(list))
	for _, l := range list {
		body, ok, bad := b.find(l, committed)
		if bad != nil {
			return bad
		}
		if !ok {
			return refuse(http.StatusBadRequest, "InvalidBlockList", "The specified block list is invalid: unknown block "+l.id)
		}
		v.content = append(v.content, body...)
		v.blocks = append(v.blocks, namedBlock{l.id, body.len()})
	}
	return nil
}

func (b *blobState) find(l listed, committed map[string]content) (content, bool, *refusal) {
	var staged block
	var isStaged bool
	if b != nil {
		staged, isStaged = b.staged[l.id]
	}
	old, isCommitted := committed[l.id]
	switch l.list {
	case "Uncommitted":
		return staged.content, isStaged, nil
	case "Committed":
		return old, isCommitted, nil
	case "Latest":
		if isStaged {
			return staged.content, true, nil
		}
		return old, isCommitted, nil
	}
	return nil, false, errXML("unknown list " + l.list)
}

// committedBlocks cuts the committed content back into its blocks.
func (b *blobState) committedBlocks() map[string]content {
	if b == nil || b.current == nil {
		return nil
	}
	out := make(map[string]content, len(b.current.blocks))
	rest := b.current.content
	for _, n := range b.current.blocks {
		var body content
		body, rest = rest.split(n.size)
		out[n.id] = body
	}
	return out
}

// getBlockList follows "Get Block List", REST reference. Unlike the other
// reads it answers for a name that has only staged blocks.
func (s *Server) getBlockList(c *call) *reply {
	kind := c.query.Get("blocklisttype")
	if kind == "" {
		kind = "committed"
	}
	if kind != "committed" && kind != "uncommitted" && kind != "all" {
		return errQuery("blocklisttype", kind).reply()
	}
	cond, bad := blobConditions(c.header)
	if bad != nil {
		return bad.reply()
	}
	k, bad := s.container(c)
	if bad != nil {
		return bad.reply()
	}
	b := k.blobs[c.blob]
	if b == nil {
		return errBlobNotFound().reply()
	}
	r := answer(http.StatusOK)
	if v := b.current; v != nil {
		if b, bad = s.readable(c, cond); bad != nil {
			return bad.reply()
		}
		r.set("ETag", v.etag).set("Last-Modified", v.lastModified.Format(http.TimeFormat))
		r.set("x-ms-blob-content-length", strconv.FormatInt(v.content.len(), 10))
	}
	return r.xml(b.renderBlocks(kind))
}

func (b *blobState) renderBlocks(kind string) string {
	var out strings.Builder
	out.WriteString("<BlockList>")
	if kind != "uncommitted" {
		out.WriteString("<CommittedBlocks>")
		if b.current != nil {
			for _, n := range b.current.blocks {
				fmt.Fprintf(&out, "<Block><Name>%s</Name><Size>%d</Size></Block>", n.id, n.size)
			}
		}
		out.WriteString("</CommittedBlocks>")
	}
	if kind != "committed" {
		out.WriteString("<UncommittedBlocks>")
		for _, id := range b.order {
			fmt.Fprintf(&out, "<Block><Name>%s</Name><Size>%d</Size></Block>", id, b.staged[id].content.len())
		}
		out.WriteString("</UncommittedBlocks>")
	}
	out.WriteString("</BlockList>")
	return out.String()
}
