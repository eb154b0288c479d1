"""A small HTTP server: the bridge shows its state with it, and `hashstar serve` a topology."""
