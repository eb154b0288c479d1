"""Columns of keys as numpy arrays, and what looks up whole arrays at once. Needs numpy (extra ``batch``)."""
