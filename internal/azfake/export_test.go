package azfake

// StageBlock stages a block without a request, for a test that needs very many.
func (s *Server) StageBlock(container, blob, id string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers[container].entry(blob).keepBlock(id, contentOf(data))
}
