"""An upgrade as text, Markdown and JSON."""
