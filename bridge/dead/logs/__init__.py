"""Dead letters in topics, which stay there: read in the order of their times, restored, and published again."""
