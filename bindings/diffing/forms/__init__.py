"""The forms of a comparison: text, JSON and Markdown."""
