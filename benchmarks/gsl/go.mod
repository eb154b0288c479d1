module hashstar/benchmarks/gsl

go 1.26.0

require github.com/nats-io/nats-server/v2 v2.15.2
