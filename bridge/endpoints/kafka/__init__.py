"""What bridges need to know of Kafka's clients."""
