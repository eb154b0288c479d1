"""A pass over an archive in one process: its studies, its tasks, and the selection of messages."""
