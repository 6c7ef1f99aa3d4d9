// Package wire is a TCP proxy before a database that loses one request, or one
// reply, at exactly the place it is told. It knows of a protocol only where
// requests and replies begin and end; a Protocol says that.
package wire
