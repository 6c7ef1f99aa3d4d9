// Package store holds the contracts between the blobtx protocol and the two
// places it keeps consistent: a RowStore (a SQL database) and a BlobStore
// (Azure Blob Storage). It has the types both sides speak, the promises of
// every step, and the errors, which are acted on by identity.
//
// Applications use package blobtx, which aliases what they need from here.
// This package is for those who write a store, wrap one, or test one; package
// storetest is the executable form of the comments on the two interfaces.
package store
