package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/sqlstore"
)

// newHandler is a service with a table of its own, for the README's test.
func newHandler(c *blobtx.Coordinator, rows *sqlstore.Store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /invoices/{id}", func(w http.ResponseWriter, r *http.Request) {
		o, err := putInvoice(r.Context(), c, rows, r)
		switch {
		case err == nil:
			w.Header().Set("ETag", o.Version.ETag())
			w.WriteHeader(http.StatusCreated)
		case errors.Is(err, blobtx.ErrExists):
			http.Error(w, "there is one", http.StatusConflict)
		default:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		}
	})
	return mux
}

func putInvoice(ctx context.Context, c *blobtx.Coordinator, rows *sqlstore.Store, r *http.Request) (blobtx.Object, error) {
	key := "invoice/" + r.PathValue("id")
	up, err := c.Stage(ctx, key, r.Body, nil)
	if err != nil {
		return blobtx.Object{}, err
	}
	defer up.Release()
	objects, err := c.CommitWith(ctx, func(ctx context.Context, commit blobtx.CommitFunc) error {
		return rows.InTx(ctx, nil, func(ctx context.Context, tx *sql.Tx) error {
			if _, err := commit(rows.Tx(tx)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO invoices (id, file) VALUES (?, ?)`, r.PathValue("id"), key)
			return err
		})
	}, up)
	if err != nil {
		return blobtx.Object{}, err
	}
	return objects[0], nil
}
