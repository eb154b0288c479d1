"""An upgrade as text, Markdown, HTML and JSON."""
