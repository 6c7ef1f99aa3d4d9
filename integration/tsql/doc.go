// Package tsql parses the statements for SQL Server with a T-SQL grammar: no
// server is to be had on the machines that test this.
package tsql
