package blobtx

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	mathrand "math/rand/v2"
	"time"

	"github.com/blobtx/blobtx/store"
)

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// newID returns a random UUID (RFC 9562, version 4): a lease id must be one.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	var s [36]byte
	hex.Encode(s[0:8], b[0:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:], b[10:])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}

// newBlobName is unguessable and unique, and begins with two evenly spread
// digits: names that begin with a time or a counter pile onto one partition.
func newBlobName() string {
	s := randomHex(17)
	return s[:2] + "/" + s[2:]
}

func (c *Coordinator) newHolder() string { return c.instance + randomHex(10) }

// versionBits are the random low bits of a fresh version.
func versionBits() uint32 {
	var b [4]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint32(b[:]) & (1<<store.RandomBits - 1)
}

// pause waits before try number n (1 is the first retry), longer each time,
// with jitter, and reports false when ctx ended first.
func pause(ctx context.Context, n int) bool {
	d := 20 * time.Millisecond << min(n, 6)
	timer := time.NewTimer(d/2 + mathrand.N(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
