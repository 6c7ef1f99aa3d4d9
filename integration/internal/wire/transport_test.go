package wire_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/integration/internal/wire"
)

func TestATransportLosesExactlyItsRequest(t *testing.T) {
	for fault, want := range map[wire.Fault]struct {
		lost []bool // per request
		seen int64  // by the server
	}{
		wire.RequestLost:          {[]bool{false, true, false}, 2},
		wire.ReplyLost:            {[]bool{false, true, false}, 3},
		wire.Unreachable:          {[]bool{false, true, true}, 1},
		wire.ReplyLostUnreachable: {[]bool{false, true, true}, 2},
	} {
		t.Run(fault.String(), func(t *testing.T) {
			var seen atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
			defer server.Close()
			x := &wire.Transport{Base: server.Client().Transport}
			x.Fail(2, fault)
			for _, lost := range want.lost {
				r, err := (&http.Client{Transport: x}).Get(server.URL + "?comp=tags&sig=secret")
				require.Equal(t, lost, err != nil)
				if err != nil {
					require.ErrorIs(t, err, wire.ErrLost)
					continue
				}
				require.NoError(t, r.Body.Close())
			}
			require.Equal(t, want.seen, seen.Load())
			sent, met := x.Heal()
			require.True(t, met)
			require.Equal(t, []string{"GET tags", "GET tags"}, sent[:2])
		})
	}
}
