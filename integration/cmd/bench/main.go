// Bench measures blobtx as ratios in one run, so that the figures mean
// something on any machine. It needs the environment that integration/cmd/services
// gives; "make bench" runs it so.
//
// The last line is machine-readable: every ratio, and whether all of them are
// within their bounds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 7, "alternating runs of each contestant; the median counts")
	span := flag.Duration("span", 2*time.Second, "length of one run")
	pattern := flag.String("run", "", "only the measures whose name matches this `regexp`")
	profile := flag.String("cpuprofile", "", "write a profile of this process to `file`")
	flag.Parse()
	only, err := regexp.Compile(*pattern)
	if err == nil && *profile != "" {
		var f *os.File
		if f, err = os.Create(*profile); err == nil {
			err = pprof.StartCPUProfile(f)
			defer pprof.StopCPUProfile()
		}
	}
	if err == nil {
		err = run(context.Background(), only, *rounds, *span)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// figure is one measured value and its bound.
type figure struct {
	name  string
	value float64
	bound float64
	most  bool // the bound is a maximum
}

func (f figure) within() bool {
	if f.most {
		return f.value <= f.bound
	}
	return f.value >= f.bound
}

// measures are everything that is measured, in the order of the last line.
var measures = []struct {
	name    string
	measure func(ctx context.Context, rounds int, span time.Duration) ([]figure, error)
}{
	{"memory", memoryPut},
	{"put", postgresPut},
	{"stream", streamHeap},
	{"pairs", commitPairs},
	{"claims", claims},
	{"due", dueCost},
}

func run(ctx context.Context, only *regexp.Regexp, rounds int, span time.Duration) error {
	var figures []figure
	for _, m := range measures {
		if !only.MatchString(m.name) {
			continue
		}
		got, err := m.measure(ctx, rounds, span)
		if err != nil {
			return err
		}
		figures = append(figures, got...)
	}
	missed := 0
	fmt.Println()
	for _, f := range figures {
		word, mark := "at least", "ok"
		if f.most {
			word = "at most"
		}
		if !f.within() {
			mark = "MISSED"
			missed++
		}
		fmt.Printf("%-28s %8.2f   %s %g   %s\n", f.name, f.value, word, f.bound, mark)
	}
	var line []string
	for _, f := range figures {
		line = append(line, fmt.Sprintf("%s=%.2f", f.name, f.value))
	}
	fmt.Printf("%s missed=%d\n", strings.Join(line, " "), missed)
	return nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
