package faultstore

import (
	"context"
	"database/sql/driver"
)

// Connector returns c with every statement, BEGIN, COMMIT and ROLLBACK of its
// connections a step of in: of a whole *sql.DB, the application's own SQL
// included.
//
//	db := sql.OpenDB(faultstore.Connector(c, in))
//
// A fault breaks the connection, which rolls its transaction back. Outside a
// transaction LoseReply and Late apply the statement all the same; of COMMIT,
// FailBefore rolls back, LoseReply commits, and Late leaves the transaction
// open with its locks until the message is applied or dropped. The caller is
// told ErrLost, never driver.ErrBadConn, so that database/sql does not try
// again by itself; the broken connection leaves the pool afterwards.
//
// When in is a *Process and dies, its connections are closed.
func Connector(c driver.Connector, in Injector) driver.Connector { return &connector{c, in} }

type connector struct {
	under driver.Connector
	in    Injector
}

// Connect opens a connection. That is no step: it has no effect of its own,
// and its failure is one of the statement it was opened for.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if p, ok := c.in.(*Process); ok && p.Dead() {
		return nil, ErrDead
	}
	under, err := c.under.Connect(ctx)
	if err != nil {
		return nil, err
	}
	n := &conn{under: under, in: c.in}
	n.forget = atDeath(c.in, func() { n.breaks(ErrDead) })
	return n, nil
}

func (c *connector) Driver() driver.Driver { return c.under.Driver() }
