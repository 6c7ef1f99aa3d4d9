package azstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// errBatchReply: what came back is not the answer to the batch. Nothing is known
// of any of its parts then, not even of those it speaks of.
var errBatchReply = errors.New("the batch reply does not answer each blob once")

// sendBatch sends a batch of n parts and returns what the service answered to
// each, nil for yes. Its error is about the batch as a whole.
func (s *Store) sendBatch(ctx context.Context, b *container.BatchBuilder, n int) (answers []error, err error) {
	defer func() {
		// The SDK finds its own requests by the Content-IDs of the reply, and
		// takes any number for one of them. A proxy's mistake must not end the
		// process; whatever else panics must.
		if p := recover(); p != nil {
			cause, ok := p.(runtime.Error)
			if !ok {
				panic(p)
			}
			answers, err = nil, fmt.Errorf("%w: %w", errBatchReply, cause)
		}
	}()
	resp, err := s.c.SubmitBatch(ctx, b, nil)
	if err != nil {
		return nil, err
	}
	answers, known := make([]error, n), make([]bool, n)
	for _, r := range resp.Responses {
		// By position: a batch may hold one name twice.
		if r.ContentID == nil || *r.ContentID < 0 || *r.ContentID >= n || known[*r.ContentID] {
			return nil, errBatchReply
		}
		answers[*r.ContentID], known[*r.ContentID] = r.Error, true
	}
	if len(resp.Responses) != n {
		return nil, errBatchReply
	}
	return answers, nil
}
