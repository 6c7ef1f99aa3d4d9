//go:build race

package blobtxtest_test

const raceEnabled = true
