"""Topics as a source: a member of a consumer group, its partitions, and which topics its offsets are of."""
