"""The commands of the engine: `hashstar route`, `explain`, `partition` and `selector`."""
