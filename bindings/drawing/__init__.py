"""Drawings of a topology: its nodes and edges, their layout, and the forms of a drawing: text, SVG, Mermaid, DOT."""
