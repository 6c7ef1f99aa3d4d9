// Package blobtx keeps rows in a SQL database and blobs in Azure Blob Storage
// telling the same story, without a distributed transaction.
//
// There are four steps. An Intent is a committed row that promises a blob name.
// An Upload streams the bytes to exactly that name, create-only. A Commit makes
// them visible in one database transaction, yours if you like. A Sweep deletes
// what was promised and never committed, and what was committed and given up.
//
// The database is the first to learn a blob's name and the last to admit that
// the object exists, and no blob is ever deleted before a committed database
// step has made it unreachable. So a row whose bytes are missing or different
// never exists; bytes that no row shows may, for a while, and an indexed query
// finds them.
//
// Put does the four steps in one call. CommitWith commits uploads beside your
// own rows. Open reads one version, whatever happens meanwhile. RunSweeper runs
// in every process of the service; there is nothing else to run.
//
// Stores come from sqlstore and azstore, or from memstore for tests.
package blobtx
