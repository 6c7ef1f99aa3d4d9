// Package integration tests blobtx with real drivers on real services. It is a
// module of its own so that users of the library inherit no driver.
package integration
