"""The pass over an archive in one process: what it counts, in which tasks, of which messages."""
