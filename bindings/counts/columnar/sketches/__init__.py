"""Sketches that are kept for many groups at once: heavy hitters, HyperLogLog and bottom-k samples."""
