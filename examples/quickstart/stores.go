package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/blobtx/blobtx"
	"github.com/blobtx/blobtx/azstore"
	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/sqlstore"
	"github.com/blobtx/blobtx/store"
)

// tables begins the names of blobtx's tables, and prefix those of its blobs,
// so that the quickstart keeps to itself in a database and container of yours.
const (
	tables = "quickstart_"
	prefix = "quickstart/"
)

type stores struct {
	db             *sql.DB
	rows           *sqlstore.Store
	blobs          *azstore.Store
	insertDocument string
	folder         string
}

func openStores(ctx context.Context, dsn, azure string) (_ *stores, err error) {
	s := &stores{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	dialect, err := s.openDB(dsn)
	if err != nil {
		return nil, err
	}
	if s.rows, err = sqlstore.New(s.db, dialect, &sqlstore.Options{Prefix: tables}); err != nil {
		return nil, err
	}
	if err := s.rows.Migrate(ctx); err != nil {
		return nil, err
	}
	if _, err := s.db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS quickstart_documents (id VARCHAR(32) PRIMARY KEY, title TEXT NOT NULL, object_key TEXT NOT NULL)`); err != nil {
		return nil, fmt.Errorf("create the business table: %w", err)
	}
	client, err := openContainer(ctx, azure)
	if err != nil {
		return nil, err
	}
	s.blobs, err = azstore.New(client, &azstore.Options{Prefix: prefix})
	return s, err
}

func (s *stores) openDB(dsn string) (d sqlstore.Dialect, err error) {
	if dsn != "" {
		if s.db, err = sql.Open("pgx", dsn); err != nil {
			return d, errors.New("-db is not a postgres:// URL")
		}
		s.insertDocument = `INSERT INTO quickstart_documents (id, title, object_key) VALUES ($1, $2, $3)`
		return sqlstore.Postgres, nil
	}
	if s.folder, err = os.MkdirTemp("", "quickstart"); err != nil {
		return d, err
	}
	file := filepath.Join(s.folder, "quickstart.db")
	s.db, err = sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return d, err
	}
	s.db.SetMaxOpenConns(1) // SQLite has one writer
	s.insertDocument = `INSERT INTO quickstart_documents (id, title, object_key) VALUES (?, ?, ?)`
	return sqlstore.SQLite, nil
}

func openContainer(ctx context.Context, azure string) (*container.Client, error) {
	switch {
	case azure == "":
		return azfake.New(nil).ContainerClient("quickstart", nil)
	case strings.HasPrefix(azure, "http://"), strings.HasPrefix(azure, "https://"):
		return container.NewClientWithNoCredential(azure, nil)
	}
	client, err := container.NewClientFromConnectionString(azure, "blobtx-quickstart", nil)
	if err != nil {
		return nil, errors.New("-azure is neither a URL nor a connection string")
	}
	// Without retries, so that a wrong address is told at once.
	once := policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
	if _, err := client.Create(once, nil); err != nil && !bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return nil, fmt.Errorf("create container: %w", withoutSAS(err))
	}
	return client, nil
}

// withoutSAS is err without the query of the URL, whose sig is a secret. The
// errors of azstore are without it already.
func withoutSAS(err error) error {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) { // its own text has many lines
		return fmt.Errorf("%d %s", answer.StatusCode, cmp.Or(answer.ErrorCode, http.StatusText(answer.StatusCode)))
	}
	var u *url.Error
	if errors.As(err, &u) {
		address, _, _ := strings.Cut(u.URL, "?")
		return fmt.Errorf("%s %q: %w", u.Op, address, u.Err)
	}
	return err
}

func (s *stores) close() {
	if s.db != nil {
		s.db.Close()
	}
	if s.folder != "" {
		os.RemoveAll(s.folder)
	}
}

func (s *stores) intentsLeft(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM `+tables+`intents`).Scan(&n)
	return n, err
}

// show prints every row and every blob there is.
func (s *stores) show(ctx context.Context, out io.Writer, format string, args ...any) error {
	fmt.Fprintf(out, "%s\n\n", fmt.Sprintf(format, args...))
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "  WHERE\tWHAT\tSTATE\tBLOB")
	for _, q := range []string{
		`SELECT 'row in quickstart_documents', title, '', '' FROM quickstart_documents ORDER BY 2`,
		`SELECT 'row in objects', object_key, 'at ' || version, blob_name FROM ` + tables + `objects ORDER BY 2`,
		`SELECT 'row in intents', object_key, state, blob_name FROM ` + tables + `intents ORDER BY created_at`,
		`SELECT 'row in retired', '', 'to delete', blob_name FROM ` + tables + `retired ORDER BY 4`,
	} {
		if err := printRows(ctx, w, s.db, q); err != nil {
			return err
		}
	}
	for info, err := range s.blobs.List(ctx, store.ListBlobsParams{}) {
		if err != nil {
			return err
		}
		tag := "state=pending"
		if info.Sealed {
			tag = "state=committed"
		}
		fmt.Fprintf(w, "  blob\t%s\t%s\t%s\n", info.Key, tag, short(info.Name))
	}
	w.Flush()
	fmt.Fprintln(out)
	return nil
}

func printRows(ctx context.Context, w io.Writer, db *sql.DB, query string) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var where, what, state, blob string
		if err := rows.Scan(&where, &what, &state, &blob); err != nil {
			return err
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", where, what, state, short(blob))
	}
	return rows.Err()
}

func short(name string) string {
	if len(name) > 11 {
		return name[:11] + "…"
	}
	return name
}

// compare reads both stores to the end: dangling are objects whose blob is
// missing or different, orphans are blobs that no object names.
func (s *stores) compare(ctx context.Context, c *blobtx.Coordinator) (dangling, orphans int, err error) {
	named := map[string]bool{}
	for object, err := range c.List(ctx, nil) {
		if err != nil {
			return 0, 0, err
		}
		named[object.Blob.Name] = true
		body, err := s.blobs.Open(ctx, store.OpenParams{Name: object.Blob.Name, ETag: object.Blob.ETag, Count: -1})
		if errors.Is(err, blobtx.ErrBlobNotFound) || errors.Is(err, blobtx.ErrConflict) {
			dangling++
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		h := sha256.New()
		size, err := io.Copy(h, body)
		body.Close()
		if err != nil {
			return 0, 0, err
		}
		if size != object.Blob.Size || hex.EncodeToString(h.Sum(nil)) != object.Blob.SHA256 {
			dangling++
		}
	}
	for info, err := range s.blobs.List(ctx, store.ListBlobsParams{}) {
		if err != nil {
			return 0, 0, err
		}
		if !named[info.Name] {
			orphans++
		}
	}
	return dangling, orphans, nil
}

// equal compares two streams to their ends.
func equal(a, b io.Reader) (bool, error) {
	bufA, bufB := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, bufA)
		m, errB := io.ReadFull(b, bufB)
		if n != m || !bytes.Equal(bufA[:n], bufB[:m]) {
			return false, nil
		}
		endA, endB := errA == io.EOF || errA == io.ErrUnexpectedEOF, errB == io.EOF || errB == io.ErrUnexpectedEOF
		switch {
		case errA != nil && !endA:
			return false, errA
		case errB != nil && !endB:
			return false, errB
		case endA || endB:
			return endA == endB, nil
		}
	}
}
