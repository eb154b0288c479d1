"""Sketches of many groups at once: heavy hitters, HyperLogLog and bottom-k samples."""
