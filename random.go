package blobtx

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"io"
	"time"

	"github.com/blobtx/blobtx/internal/seam"
	"github.com/blobtx/blobtx/store"
)

func init() {
	seam.Random = func(coordinator any, source io.Reader) {
		c := coordinator.(*Coordinator)
		c.random = entropy{source}
		c.instance = c.random.hex(instanceBytes)
	}
}

// entropy is where ids, names and jitter come from.
type entropy struct{ source io.Reader }

func newEntropy() entropy { return entropy{rand.Reader} }

func (e entropy) read(b []byte) {
	if _, err := io.ReadFull(e.source, b); err != nil {
		panic("blobtx: no randomness: " + err.Error()) // crypto/rand never fails
	}
}

func (e entropy) hex(bytes int) string {
	b := make([]byte, bytes)
	e.read(b)
	return hex.EncodeToString(b)
}

// id returns a random UUID (RFC 9562, version 4): a lease id must be one.
func (e entropy) id() string {
	b := make([]byte, 16)
	e.read(b)
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

// blobName is unguessable and unique, and begins with two evenly spread digits:
// names that begin with a time or a counter pile onto one partition.
func (e entropy) blobName() string {
	s := e.hex(17)
	return s[:2] + "/" + s[2:]
}

// uint32 returns 32 random bits.
func (e entropy) uint32() uint32 {
	b := make([]byte, 4)
	e.read(b)
	return binary.LittleEndian.Uint32(b)
}

// versionBits are the random low bits of a fresh version.
func (e entropy) versionBits() uint32 { return e.uint32() & (1<<store.RandomBits - 1) }

// around returns d plus or minus a quarter, so that many processes do not act
// at once.
func (e entropy) around(d time.Duration) time.Duration {
	d = min(d, 1<<62) // a quarter more is not to wrap
	return d - d/4 + time.Duration(float64(d/2)*float64(e.uint32())/(1<<32))
}

// instanceBytes is the length of the prefix of a process's holders.
const instanceBytes = 6

// What a holder did to become one: the letter after the prefix of its process.
const (
	byInsert   = "i"
	byTakeover = "t"
)

func (c *Coordinator) newHolder(how string) string { return c.instance + how + c.random.hex(10) }

// pause waits before try number n (1 is the first retry), longer each time,
// with jitter, and reports false when ctx ended first.
func (c *Coordinator) pause(ctx context.Context, n int) bool {
	timer := time.NewTimer(c.random.around(20 * time.Millisecond << min(n, 6)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
