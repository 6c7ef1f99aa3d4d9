// Package azstore is a store.BlobStore over one container of Azure Blob
// Storage.
//
// It takes a *container.Client that the caller has built, so that every kind of
// credential works, and needs from it: read (r), write (w), delete (d), list
// (l) and tags (t) as SAS permissions, or the role Storage Blob Data Owner.
// Store.Probe says what is missing.
//
// Two conditions are part of every request that could destroy bytes, with no
// way around them: a create carries If-None-Match: *, whatever the size, and a
// delete carries the index tags that the blob must have (TagGuard). A pending
// blob has the tags state=pending and intent=<id>; sealing sets state=committed.
//
// The SDK repeats a request by itself when the reply was lost, and can then
// meet its own first try: a create answers ErrExists, a delete ErrBlobNotFound.
// Neither says who did it; store.BlobStore leaves that to Stat.
package azstore
