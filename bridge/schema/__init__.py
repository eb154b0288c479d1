"""JSON Schemas of what hashstar reads and writes, printed by ``hashstar schema``."""
