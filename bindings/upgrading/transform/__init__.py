"""The topology as a new release wants it: transformations by name, and the proof that it routes the same."""
