package azfake

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
)

// maxBatch is the number of parts that "Blob Batch", REST reference, allows.
const maxBatch = 256

// part is one request inside a batch.
type part struct {
	id      string // Content-ID
	request *http.Request
}

// batch follows "Blob Batch", REST reference. Each part is authorized and
// conditioned on its own; one that fails leaves the others alone. The parts
// are not one atomic step.
func (s *Server) batch(c *call) *reply {
	parts, bad := parseBatch(c)
	if bad != nil {
		return bad.reply()
	}
	out := newBatchReply()
	if len(parts) > maxBatch {
		// The service reports this in a single part that belongs to none.
		out.add("", refuse(http.StatusBadRequest, "ExceedsMaxBatchRequestCount",
			"The batch operation exceeds maximum number of allowed subrequests.").reply())
		return out.reply()
	}
	for _, p := range parts {
		out.add(p.id, s.servePart(c, p))
	}
	return out.reply()
}

func parseBatch(c *call) ([]part, *refusal) {
	kind, params, err := mime.ParseMediaType(c.header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" || params["boundary"] == "" {
		return nil, errHeader("Content-Type", "want multipart/mixed with a boundary")
	}
	reader := multipart.NewReader(bytes.NewReader(c.raw), params["boundary"])
	var parts []part
	for {
		p, err := reader.NextRawPart()
		if err == io.EOF && len(parts) > 0 {
			return parts, nil
		}
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "InvalidInput", "the batch does not parse: "+err.Error())
		}
		req, err := http.ReadRequest(bufio.NewReader(p))
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "InvalidInput", "a part of the batch does not parse: "+err.Error())
		}
		req.Host = c.http.Host
		parts = append(parts, part{p.Header.Get("Content-ID"), req.WithContext(c.ctx)})
	}
}

func (s *Server) servePart(parent *call, p part) *reply {
	c, bad := s.parse(p.request)
	switch c.op {
	case OpDeleteBlob:
		c.op = OpBatchDelete
	case OpSetTier:
		c.op = OpBatchSetTier
	default:
		bad = refuse(http.StatusBadRequest, "InvalidInput", "a batch holds Delete Blob and Set Blob Tier")
	}
	if bad == nil && parent.container != "" && c.container != parent.container {
		bad = refuse(http.StatusBadRequest, "InvalidInput", "the part is about another container than the batch")
	}
	if f := s.meet(c); f.Kind == Refused {
		return s.dress(c, f.refusal())
	}
	if bad != nil {
		return s.dress(c, bad.reply())
	}
	return s.dress(c, s.apply(c))
}

// batchReply collects the parts of an answer.
type batchReply struct {
	body   bytes.Buffer
	writer *multipart.Writer
}

func newBatchReply() *batchReply {
	b := &batchReply{}
	b.writer = multipart.NewWriter(&b.body)
	return b
}

// add writes one part. Writing into memory cannot fail.
func (b *batchReply) add(id string, rep *reply) {
	h := textproto.MIMEHeader{"Content-Type": {"application/http"}}
	if id != "" {
		h["Content-ID"] = []string{id}
	}
	w, _ := b.writer.CreatePart(h)
	body := rep.body.bytes()
	fmt.Fprintf(w, "HTTP/1.1 %d %s\r\n", rep.status, http.StatusText(rep.status))
	rep.header.Set("Content-Length", fmt.Sprint(len(body)))
	_ = rep.header.Write(w)
	fmt.Fprintf(w, "\r\n%s", body)
}

func (b *batchReply) reply() *reply {
	_ = b.writer.Close()
	r := answer(http.StatusAccepted)
	r.set("Content-Type", "multipart/mixed; boundary="+strings.TrimSpace(b.writer.Boundary()))
	r.body = contentOf(b.body.Bytes())
	return r
}
