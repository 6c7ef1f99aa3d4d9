package main

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/blobtx/blobtx/internal/azfake"
	"github.com/blobtx/blobtx/sqlstore"
)

func TestTheReadmesCodeRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "readme.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	rows, err := sqlstore.New(db, sqlstore.SQLite, nil)
	require.NoError(t, err)
	require.NoError(t, rows.Migrate(ctx))
	_, err = db.ExecContext(ctx, `CREATE TABLE invoices (id INTEGER PRIMARY KEY, file TEXT NOT NULL REFERENCES blobtx_objects (object_key))`)
	require.NoError(t, err)
	client, err := azfake.New(nil).ContainerClient("readme", nil)
	require.NoError(t, err)

	var out bytes.Buffer
	require.NoError(t, invoices(ctx, db, client, strings.NewReader("logo"), strings.NewReader("invoice 7"), &out))
	require.Equal(t, "invoice 7", out.String())
	var file string
	require.NoError(t, db.QueryRowContext(ctx, `SELECT file FROM invoices`).Scan(&file))
	require.Equal(t, "invoice/7", file)
}

func TestTheReadmeShowsThisCode(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, name := range []string{"main.go", "explore_test.go"} {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		lines := 0
		for _, part := range strings.Split(string(source), "// README: begin\n")[1:] {
			code, _, found := strings.Cut(part, "// README: end")
			require.True(t, found)
			code = "\n" + strings.TrimRight(code, "\n\t")
			if strings.HasPrefix(code, "\n\t") { // inside a function
				code = strings.ReplaceAll(code, "\n\t", "\n")
			}
			require.Contains(t, string(readme), "```go"+code+"\n```\n")
			lines += strings.Count(code, "\n")
		}
		require.Equal(t, 20, lines, name)
	}
}
