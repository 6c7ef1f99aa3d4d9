package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the program prints is the same every time; testdata has what it found
// wrong. How many ways there are through blobtx changes with its steps.
func TestOnlyBlobtxKeepsTheData(t *testing.T) {
	these := subjects
	if raceEnabled { // the last has thousands of executions
		these = these[:len(these)-1]
	}
	var out bytes.Buffer
	require.True(t, run(&out, these), out.String())
	naive, with, _ := strings.Cut(out.String(), "== blobtx\n")
	want, err := os.ReadFile("testdata/naive.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), naive)
	require.Equal(t, len(these)-3, strings.Count(with, " violations=0 complete=true\n"), with)
}
