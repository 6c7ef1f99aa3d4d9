package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/http.md points at functions, tests and examples: all of them are there.
func TestTheDocumentationNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../../docs/http.md")
	require.NoError(t, err)
	var code strings.Builder
	for _, pattern := range []string{"*.go", "../../example*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			source, err := os.ReadFile(name)
			require.NoError(t, err)
			code.Write(source)
		}
	}
	own := map[string]bool{"answer": true, "read": true, "ifMatch": true, "save": true, "sameRequest": true, "request": true, "explain": true, "remove": true}
	found := 0
	for _, m := range regexp.MustCompile("`([A-Za-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		name := m[1]
		if !own[name] && !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Example") || name == "Example" {
			continue
		}
		found++
		require.Regexp(t, `(?m)^func (\([^)]*\) )?`+name+`\(`, code.String())
		delete(own, name)
	}
	require.Empty(t, own, "named no more")
	require.Greater(t, found, 15)
}
