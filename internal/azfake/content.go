package azfake

import (
	"bytes"
	"crypto/md5"
	"io"
)

// chunk is a stretch of bytes that never changes. Without data it stands for
// size zero bytes: what is left of a body under Options.Discard.
type chunk struct {
	data []byte
	size int64
}

// content is a blob's bytes as the chunks they arrived in. Committing a block
// list shares the blocks' memory instead of joining them.
type content []chunk

func contentOf(b []byte) content {
	if len(b) == 0 {
		return nil
	}
	return content{{data: b, size: int64(len(b))}}
}

func (c content) len() int64 {
	var n int64
	for _, k := range c {
		n += k.size
	}
	return n
}

// slice returns n bytes from off on, sharing memory.
func (c content) slice(off, n int64) content {
	var out content
	for _, k := range c {
		if n <= 0 {
			break
		}
		if off >= k.size {
			off -= k.size
			continue
		}
		take := min(n, k.size-off)
		part := chunk{size: take}
		if k.data != nil {
			part.data = k.data[off : off+take]
		}
		out = append(out, part)
		off, n = 0, n-take
	}
	return out
}

// bytes joins the content into memory of its own.
func (c content) bytes() []byte {
	var b bytes.Buffer
	b.Grow(int(c.len()))
	_, _ = c.WriteTo(&b) // a bytes.Buffer never fails
	return b.Bytes()
}

// md5 is what the Content-MD5 headers carry.
func (c content) md5() []byte {
	h := md5.New()
	_, _ = c.WriteTo(h) // a hash never fails
	return h.Sum(nil)
}

var zeros [64 << 10]byte

// WriteTo implements io.WriterTo without copying a chunk.
func (c content) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for _, k := range c {
		n, err := k.writeTo(w)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (k chunk) writeTo(w io.Writer) (int64, error) {
	if k.data != nil {
		n, err := w.Write(k.data)
		return int64(n), err
	}
	var total int64
	for total < k.size {
		n, err := w.Write(zeros[:min(k.size-total, int64(len(zeros)))])
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// contentReader reads content front to back.
type contentReader struct {
	content content
	at      int   // the chunk being read
	off     int64 // where in it
}

func (r *contentReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for r.at < len(r.content) && r.off == r.content[r.at].size {
		r.at, r.off = r.at+1, 0
	}
	if r.at == len(r.content) {
		return 0, io.EOF
	}
	k := r.content[r.at]
	n := int(min(int64(len(p)), k.size-r.off))
	if k.data == nil {
		clear(p[:n])
	} else {
		copy(p, k.data[r.off:r.off+int64(n)])
	}
	r.off += int64(n)
	return n, nil
}

// split cuts the content after n bytes. Where the cut falls between chunks,
// as between blocks, nothing is copied but slice headers.
func (c content) split(n int64) (head, tail content) {
	for i, k := range c {
		if n < k.size || n == 0 {
			if n == 0 {
				return c[:i:i], c[i:]
			}
			head = append(c[:i:i], content{k}.slice(0, n)...)
			return head, append(content{k}.slice(n, k.size-n), c[i+1:]...)
		}
		n -= k.size
	}
	return c, nil
}
