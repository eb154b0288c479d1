"""Topics as a target: with an idempotent producer, or in transactions with the offsets of the sources."""
