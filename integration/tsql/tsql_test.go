package tsql

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/testenv"
	"github.com/blobtx/blobtx/sqlstore"
)

// parse returns what the grammar has against each text.
func parse(t *testing.T, texts []string) [][]string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat("node_modules/antlr4ts-sql")
	}
	if err != nil {
		testenv.Missing(t, fmt.Sprintf(`needs Node.js and the T-SQL grammar; run "make services", which installs them: %v`, err))
	}
	in, err := json.Marshal(texts)
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), node, "parse.js")
	command.Stdin, command.Stderr = strings.NewReader(string(in)), os.Stderr
	out, err := command.Output()
	require.NoError(t, err)
	var errs [][]string
	require.NoError(t, json.Unmarshal(out, &errs))
	require.Len(t, errs, len(texts))
	return errs
}

// statements are those that sqlstore's tests say are all, and the migrations.
func statements(t *testing.T) (names, texts []string) {
	t.Helper()
	file, err := os.ReadFile("../../sqlstore/testdata/sqlserver.sql")
	require.NoError(t, err)
	for part := range strings.SplitSeq(strings.TrimSuffix(string(file), "\n;\n"), "\n;\n") {
		name, text, ok := strings.Cut(strings.TrimPrefix(part, "-- "), "\n")
		require.True(t, ok, part)
		names, texts = append(names, name), append(texts, text)
	}
	require.Greater(t, len(texts), 50)
	migrations := sqlstore.Migrations(sqlstore.SQLServer)
	paths, err := fs.Glob(migrations, "*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		text, err := fs.ReadFile(migrations, path)
		require.NoError(t, err)
		names, texts = append(names, path), append(texts, string(text))
	}
	return names, texts
}

// The grammar knows no names: a hint that does not exist passes it, which is why
// sqlstore's tests know the hints.
func TestStatementsAreTransactSQL(t *testing.T) {
	names, texts := statements(t)
	broken := []string{
		"SELECT a FROM b LIMIT 1",
		"SELECT 1 FROM a FOR UPDATE SKIP LOCKED",
		"UPDATE a SET x = 1 RETURNING x",
		"INSERT INTO a (x) SELECT @p1 ON CONFLICT DO NOTHING",
		"DELETE o OUTPUT deleted.x FORM a o",
	}
	for i, name := range names { // of ours, one word or one parenthesis less
		switch name {
		case "look":
			broken = append(broken, strings.Replace(texts[i], "coalesce(o.version, 0)", "coalesce(o.version, 0", 1))
		case "create":
			broken = append(broken, strings.Replace(texts[i], "END TRY", "", 1))
		case "claimIntents":
			broken = append(broken, strings.Replace(texts[i], " OUTPUT", "", 1))
		case "intentsKept":
			broken = append(broken, strings.Replace(texts[i], "OPENJSON(@p1)", "OPENJSON @p1", 1))
		}
	}
	require.Len(t, broken, 9)
	errs := parse(t, append(texts, broken...))
	for i, name := range names {
		require.Empty(t, errs[i], "%s: %s", name, texts[i])
	}
	for i, text := range broken {
		require.NotEmpty(t, errs[len(names)+i], "not refused: %s", text)
	}
}
