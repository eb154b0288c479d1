"""Drawings of a topology: its nodes and edges, their layout, and the drawing as SVG or text."""
