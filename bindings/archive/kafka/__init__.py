"""Read the logs of Kafka brokers: segments of partitions, and what is kept beside them."""
