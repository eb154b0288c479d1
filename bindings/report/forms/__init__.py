"""The forms of a report: terminal, Markdown, JSON, JUnit, tables and an HTML page."""
