package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/integration/internal/services"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/sqlstore"
)

const goroutines = 16

// statements counts what goes to the server, BEGIN and COMMIT included.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// put stores 4 KiB under a key that was never used.
type put func(ctx context.Context, key string, body []byte) error

// postgresPut compares Put with what people write by hand when they take care:
// pending row, upload, ready row, tag flip. Same pool, same client.
func postgresPut(ctx context.Context, rounds int, span time.Duration) ([]figure, error) {
	url := os.Getenv(services.PostgresEnv)
	if url == "" {
		return nil, fmt.Errorf("%s is not set: run it with make bench", services.PostgresEnv)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the PostgreSQL URL cannot be read")
	}
	var count statements
	config.Tracer = &count
	db := stdlib.OpenDB(*config)
	defer db.Close()
	db.SetMaxOpenConns(goroutines + 4)
	db.SetMaxIdleConns(goroutines + 4)
	schema := fmt.Sprintf("bench_%d", time.Now().UnixNano()%1e9)
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, err
	}
	defer func() { _, _ = db.ExecContext(context.WithoutCancel(ctx), "DROP SCHEMA "+schema+" CASCADE") }()

	server := azfake.New(nil)
	client, err := server.ContainerClient("bench", nil)
	if err != nil {
		return nil, err
	}
	byHand, err := newByHand(ctx, db, schema, client)
	if err != nil {
		return nil, err
	}
	inline, err := newPut(ctx, db, schema, client, false)
	if err != nil {
		return nil, err
	}
	later, err := newPut(ctx, db, schema, client, true)
	if err != nil {
		return nil, err
	}
	names, puts := []string{"by hand", "Put", "Put, SealLater"}, []put{byHand, inline, later}
	body := make([]byte, 4<<10)
	var contestants []func(ctx context.Context, id string) error
	for _, put := range puts {
		contestants = append(contestants, func(ctx context.Context, id string) error { return put(ctx, id, body) })
	}
	rates, err := alternate(ctx, goroutines, rounds, span, contestants...)
	if err != nil {
		return nil, err
	}
	for i, put := range puts {
		count.n.Store(0)
		server.ResetCounts()
		const n = 100
		for k := range n {
			if err := put(ctx, fmt.Sprintf("count/%d/%d", i, k), body); err != nil {
				return nil, err
			}
		}
		fmt.Printf("PostgreSQL + azfake, %d goroutines, 4 KiB: %-15s %6.0f/s; alone: %.2f statements, %.2f requests each\n",
			goroutines, names[i], rates[i], float64(count.n.Load())/n, float64(server.Requests())/n)
	}
	return []figure{
		{"put_ratio", rates[1] / rates[0], 0.85, false},
		{"put_seallater_ratio", rates[2] / rates[0], 0.95, false},
	}, nil
}

func newPut(ctx context.Context, db *sql.DB, schema string, client *container.Client, sealLater bool) (put, error) {
	rows, err := sqlstore.New(db, sqlstore.Postgres, &sqlstore.Options{Schema: schema})
	if err != nil {
		return nil, err
	}
	if err := rows.Migrate(ctx); err != nil {
		return nil, err
	}
	blobs, err := azstore.New(client, nil)
	if err != nil {
		return nil, err
	}
	c, err := blobtx.New(rows, blobs, &blobtx.Options{SealLater: sealLater})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string, body []byte) error {
		_, err := c.Put(ctx, key, bytes.NewReader(body), nil)
		return err
	}, nil
}

// newByHand is the baseline: two explicit transactions with prepared
// statements, a create-only upload with a pending tag, and the tag flip.
func newByHand(ctx context.Context, db *sql.DB, schema string, client *container.Client) (put, error) {
	_, err := db.ExecContext(ctx, strings.ReplaceAll(`CREATE TABLE S.files (
		id UUID PRIMARY KEY, name TEXT NOT NULL UNIQUE, blob_name TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
		etag TEXT, size BIGINT, sha256 TEXT, created_at TIMESTAMPTZ NOT NULL DEFAULT now(), updated_at TIMESTAMPTZ NOT NULL DEFAULT now())`, "S.", schema+"."))
	if err != nil {
		return nil, err
	}
	insert, err := db.PrepareContext(ctx, `INSERT INTO `+schema+`.files (id, name, blob_name, state) VALUES ($1, $2, $3, 'pending')`)
	if err != nil {
		return nil, err
	}
	ready, err := db.PrepareContext(ctx, `UPDATE `+schema+`.files SET state = 'ready', etag = $2, size = $3, sha256 = $4, updated_at = now() WHERE id = $1 AND state = 'pending'`)
	if err != nil {
		return nil, err
	}
	absent := azcore.ETagAny
	return func(ctx context.Context, key string, body []byte) error {
		id := uuid.NewString()
		name := id[:2] + "/" + id
		if err := inTx(ctx, db, func(tx *sql.Tx) error {
			return one(tx.StmtContext(ctx, insert).ExecContext(ctx, id, key, name))
		}); err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		blobClient := client.NewBlockBlobClient(name)
		reply, err := blobClient.Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), &blockblob.UploadOptions{
			Tags:             map[string]string{"state": "pending", "intent": id},
			AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &absent}},
		})
		if err != nil {
			return err
		}
		if err := inTx(ctx, db, func(tx *sql.Tx) error {
			return one(tx.StmtContext(ctx, ready).ExecContext(ctx, id, string(*reply.ETag), len(body), hex.EncodeToString(sum[:])))
		}); err != nil {
			return err
		}
		_, err = blobClient.SetTags(ctx, map[string]string{"state": "committed", "intent": id}, nil)
		return err
	}, nil
}

// inTx is an explicit transaction.
func inTx(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// one is the error of a statement that must change one row.
func one(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("%d rows: %w", n, err)
	}
	return nil
}
