// Package memstore has both stores in memory, for tests and first steps: Rows
// is a store.RowStore with transactions, Blobs a store.BlobStore with guards
// and ETags. Nothing survives the process.
//
// They keep every promise of the two interfaces, and are small enough to read
// as the reference for one's own. Clocks are injectable; whatever waits waits
// on a channel and no mutex is held while the caller's code runs, so that both
// work inside a testing/synctest bubble.
package memstore
