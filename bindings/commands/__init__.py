"""The commands that work on whole topologies, one module each."""
