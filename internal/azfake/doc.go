// Package azfake is an Azure Blob Storage server that lives in the test's own
// process. It speaks enough of the REST API for the azblob SDK: containers,
// block blobs, block lists, conditions, index tags, leases, batches, listings,
// copies, soft delete, shared key and SAS.
//
// It follows the REST reference where emulators are known to differ: every
// condition sent with a request must hold, Set Blob Tags honours conditions,
// and a name with nothing but staged blocks is no blob. Where the reference
// leaves two answers open, Options has a switch, so that a client can be shown
// to be right under both.
//
// A Server is an http.Handler, for use behind a socket, and gives a
// policy.Transporter, which calls the handler in the caller's goroutine: no
// socket, no goroutine, no lock held while anything waits. Through the
// transporter the SDK runs inside a testing/synctest bubble.
//
// A Hook decides for each request whether it is lost, applied without an
// answer, applied late, delayed, refused or answered in part.
package azfake
