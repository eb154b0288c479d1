"""Questions about sets of patterns and conditions, answered exactly or left undecided."""
