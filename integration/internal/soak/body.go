//go:build unix

package soak

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"time"
)

const (
	blockSize = 64 << 10 // azstore stages bodies that are larger
	partKey   = "part"   // metadata that names the bytes
)

// Body returns the bytes of a part of an ask: the same in every process, and
// others for every part. One in eight takes the staged path.
func Body(part string) []byte {
	seed := sha256.Sum256([]byte(part))
	r := rand.New(rand.NewChaCha8(seed))
	size := r.IntN(16 << 10)
	switch r.IntN(8) {
	case 0:
		size = r.IntN(64)
	case 1:
		size = blockSize + 1 + r.IntN(3*blockSize)
	}
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(r.Uint32())
	}
	return body
}

func sumOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// slowBody is a client on a thin line, so that kills land in the midst of
// uploads. It cannot be rewound.
type slowBody struct {
	left  bytes.Reader
	pause time.Duration
}

func (s *slowBody) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	return s.left.Read(p[:min(len(p), 16<<10)])
}

// reader gives the body in one of the ways a service gets it.
func reader(body []byte, r *rand.Rand) io.Reader {
	if r.IntN(2) == 0 {
		return bytes.NewReader(body)
	}
	slow := &slowBody{pause: time.Duration(r.IntN(20)) * time.Millisecond}
	slow.left.Reset(body)
	return slow
}
