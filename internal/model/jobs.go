package main

import (
	"iter"
	"strings"

	"github.com/blobtx/blobtx/internal/model/explore"
)

// job is one exploration.
type job struct {
	suite    explore.Suite
	scenario string
	mutant   string
	small    bool
	breaks   string // what the mutant must break
}

// caught: a mutant must break the rule that it is there to break.
func (j job) caught(r explore.Result) bool {
	return r.Broken != "" && strings.HasPrefix(r.Broken, j.breaks)
}

// atOnce is how many explorations run at a time. The two largest need about
// 4 GB together.
const atOnce = 2

// results runs jobs side by side and yields each with its result, in order.
func results(jobs []job) iter.Seq2[job, explore.Result] {
	done := make([]chan explore.Result, len(jobs))
	for i := range done {
		done[i] = make(chan explore.Result, 1)
	}
	places := make(chan struct{}, atOnce)
	go func() {
		for i, j := range jobs {
			places <- struct{}{}
			go func() {
				done[i] <- j.suite.Run(j.scenario, j.mutant, j.small)
				<-places
			}()
		}
	}()
	return func(yield func(job, explore.Result) bool) {
		for i, j := range jobs {
			if !yield(j, <-done[i]) {
				return
			}
		}
	}
}
