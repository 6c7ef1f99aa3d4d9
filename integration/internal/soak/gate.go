//go:build unix

package soak

import (
	"net/http"
	"sync"
)

// gate lets requests through, or keeps them waiting as a stopped process would:
// those whose client dies in the meantime are applied afterwards, late.
type gate struct {
	handler http.Handler

	mu   sync.Mutex
	open chan struct{} // closed: open
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
	g.handler.ServeHTTP(w, r)
}

func (g *gate) pause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
	return nil
}

func (g *gate) resume() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
	return nil
}
