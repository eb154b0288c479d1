"""Kafka through librdkafka: topics as sources (`consumer`) and as targets (`producer`), and what both need."""
