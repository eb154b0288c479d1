"""Random lives of messages: planned on the model, then lived on a real broker."""
