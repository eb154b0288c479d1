// Asks the real Sarama and franz-go which partition each key goes to: JSON in, JSON out, as tests/recorders/go.py says.
package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"runtime/debug"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	saramaModule = "github.com/IBM/sarama"
	franzModule  = "github.com/twmb/franz-go"
)

type question struct {
	Keys   []string `json:"keys"`
	Counts []int    `json:"counts"`
}

type answer struct {
	Version string `json:"version"`
	// Partitioner -> for each count, the partitions of the keys.
	Partitions map[string][][]int `json:"partitions"`
}

func fnv1a(key []byte) uint32 {
	hash := fnv.New32a()
	hash.Write(key)
	return hash.Sum32()
}

// Constructors by the names that hashstar gives their strategies.
var saramas = map[string]sarama.PartitionerConstructor{
	"sarama.hash":           sarama.NewHashPartitioner,
	"sarama.reference_hash": sarama.NewReferenceHashPartitioner,
	"sarama.crc32":          sarama.NewConsistentCRCHashPartitioner,
	"sarama.murmur2":        sarama.NewMurmur2Partitioner,
}

var franzes = map[string]kgo.Partitioner{
	"franz-go.murmur2":         kgo.StickyKeyPartitioner(nil),
	"franz-go.sarama_compat":   kgo.StickyKeyPartitioner(kgo.SaramaCompatHasher(fnv1a)),
	"franz-go.sarama_historic": kgo.StickyKeyPartitioner(kgo.SaramaHasher(fnv1a)),
}

func ask(asked question, choose func(key string, count int) int) [][]int {
	chosen := make([][]int, 0, len(asked.Counts))
	for _, count := range asked.Counts {
		partitions := make([]int, 0, len(asked.Keys))
		for _, key := range asked.Keys {
			partitions = append(partitions, choose(key, count))
		}
		chosen = append(chosen, partitions)
	}
	return chosen
}

func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	return "unknown"
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fail(err)
	}
	saramaAnswer := answer{version(saramaModule), map[string][][]int{}}
	for name, make := range saramas {
		partitioner := make("topic")
		saramaAnswer.Partitions[name] = ask(asked, func(key string, count int) int {
			partition, err := partitioner.Partition(&sarama.ProducerMessage{Key: sarama.StringEncoder(key)}, int32(count))
			if err != nil {
				fail(err)
			}
			return int(partition)
		})
	}
	franzAnswer := answer{version(franzModule), map[string][][]int{}}
	for name, partitioner := range franzes {
		topic := partitioner.ForTopic("topic")
		franzAnswer.Partitions[name] = ask(asked, func(key string, count int) int {
			return topic.Partition(&kgo.Record{Key: []byte(key)}, count)
		})
	}
	answers := map[string]answer{"sarama": saramaAnswer, "franz-go": franzAnswer}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
