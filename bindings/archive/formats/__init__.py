"""The archive formats, one module each, and how they are recognised."""
