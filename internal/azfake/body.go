package azfake

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"net/http"
)

// Limits of "Put Blob" and "Put Block", REST reference. maxDocument bounds the
// bodies that are XML or batches; a full block list stays below it.
const (
	maxPutBlob  = 5000 << 20
	maxPutBlock = 4000 << 20
	maxDocument = 16 << 20
)

// crcTable is the polynomial of x-ms-content-crc64.
var crcTable = crc64.MakeTable(0x9A6C9329AC4BC9B5)

// readBody reads the request's body before any lock is taken. An error means
// that the client broke off.
func (s *Server) readBody(c *call) (*refusal, error) {
	switch c.op {
	case OpPutBlob:
		return s.readContent(c, maxPutBlob)
	case OpPutBlock:
		return s.readContent(c, maxPutBlock)
	}
	if c.http.Body == nil {
		return nil, nil
	}
	raw, err := io.ReadAll(io.LimitReader(c.http.Body, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxDocument {
		return errTooLarge(), nil
	}
	c.raw = raw
	return nil, c.ctx.Err()
}

func errTooLarge() *refusal {
	return refuse(http.StatusRequestEntityTooLarge, "RequestBodyTooLarge", "The request body is too large and exceeds the maximum permissible limit.")
}

func (s *Server) readContent(c *call, limit int64) (*refusal, error) {
	if c.header.Get("x-ms-structured-body") != "" {
		return refuse(http.StatusNotImplemented, "NotImplemented", "azfake does not read structured bodies"), nil
	}
	size := c.http.ContentLength
	if size < 0 {
		return refuse(http.StatusLengthRequired, "MissingContentLengthHeader", "The Content-Length header was not specified."), nil
	}
	if size > limit {
		return errTooLarge(), nil
	}
	sums := s.sums(c)
	var err error
	if s.opts.Discard {
		c.body, err = skim(c, size, sums)
	} else {
		c.body, err = keep(c, size, sums)
	}
	if err != nil {
		return nil, err
	}
	return sums.check(c), nil
}

// keep reads the body into one exact allocation.
func keep(c *call, size int64, sums checksums) (content, error) {
	if size == 0 {
		return nil, c.ctx.Err()
	}
	const step = 4 << 20 // a cancelled client is noticed at least this often
	buf := make([]byte, size)
	for at := int64(0); at < size; at += step {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		part := buf[at:min(size, at+step)]
		if n, err := io.ReadFull(c.http.Body, part); err != nil {
			return nil, fmt.Errorf("azfake: Content-Length is %d, the body has %d bytes: %w", size, at+int64(n), err)
		}
		sums.write(part)
	}
	return contentOf(buf), c.ctx.Err()
}

// skim counts the body and keeps none of it.
func skim(c *call, size int64, sums checksums) (content, error) {
	if size == 0 {
		return nil, c.ctx.Err()
	}
	n, err := io.Copy(sums.writer(c), c.http.Body)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("azfake: Content-Length is %d, the body has %d bytes: %w", size, n, err)
	}
	return content{{size: size}}, nil
}

// checksums holds the sums this request needs; nil ones are not computed.
type checksums struct {
	md5, crc hash.Hash
}

// sums decides what to compute. Put Blob keeps an MD5 of every blob; Put Block
// computes only what the client sent.
func (s *Server) sums(c *call) checksums {
	var k checksums
	if c.header.Get("Content-MD5") != "" || c.op == OpPutBlob && !s.opts.Discard {
		k.md5 = md5.New()
	}
	if c.header.Get("x-ms-content-crc64") != "" {
		k.crc = crc64.New(crcTable)
	}
	return k
}

func (k checksums) write(p []byte) {
	if k.md5 != nil {
		k.md5.Write(p)
	}
	if k.crc != nil {
		k.crc.Write(p)
	}
}

// writer gives io.Copy a destination that sees a cancelled client.
func (k checksums) writer(c *call) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		k.write(p)
		return len(p), c.ctx.Err()
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// check compares what arrived with what the client announced.
func (k checksums) check(c *call) *refusal {
	if k.md5 != nil {
		c.md5 = k.md5.Sum(nil)
		if bad := compareSum(c.header.Get("Content-MD5"), c.md5, "Md5Mismatch"); bad != nil {
			return bad
		}
	}
	if k.crc == nil {
		return nil
	}
	sum := k.crc.Sum(nil)
	for i, j := 0, len(sum)-1; i < j; i, j = i+1, j-1 {
		sum[i], sum[j] = sum[j], sum[i] // the header is little-endian
	}
	return compareSum(c.header.Get("x-ms-content-crc64"), sum, "Crc64Mismatch")
}

func compareSum(announced string, got []byte, code string) *refusal {
	if announced == "" {
		return nil
	}
	want, err := base64.StdEncoding.DecodeString(announced)
	if err != nil {
		return refuse(http.StatusBadRequest, "InvalidMd5", "the checksum header is not base64")
	}
	if !bytes.Equal(want, got) {
		return refuse(http.StatusBadRequest, code, "The checksum specified in the request did not match the one calculated by the server.")
	}
	return nil
}
