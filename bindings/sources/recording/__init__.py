"""Recordings of what clients ask of a broker, as `hashstar record` writes them: values, and their file."""
