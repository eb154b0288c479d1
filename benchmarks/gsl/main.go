// Command gsl times the matcher of NATS: the generic sublist of nats-server, on the patterns and keys on its input.
//
// In: JSON with "patterns", in NATS' notation, "keys" and "rounds". Out: JSON with the microseconds a key of each
// round, and the number of patterns that matched, over all keys.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server/gsl"
)

func main() {
	var work struct {
		Patterns []string
		Keys     []string
		Rounds   int
	}
	if err := json.NewDecoder(os.Stdin).Decode(&work); err != nil {
		fail(err)
	}
	list := gsl.NewSublist[int]()
	for number, pattern := range work.Patterns {
		if err := list.Insert(pattern, number); err != nil {
			fail(fmt.Errorf("%s: %w", pattern, err))
		}
	}
	var answer struct {
		Microseconds []float64
		Matches      int
	}
	for range work.Rounds {
		matches := 0
		count := func(int) { matches++ }
		start := time.Now()
		for _, key := range work.Keys {
			list.Match(key, count)
		}
		spent := time.Since(start)
		answer.Microseconds = append(answer.Microseconds, spent.Seconds()/float64(len(work.Keys))*1e6)
		answer.Matches = matches
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
