// Package ncruces tests sqlstore on github.com/ncruces/go-sqlite3. It has a
// binary of its own because this driver and mattn/go-sqlite3 register the same
// name.
package ncruces
