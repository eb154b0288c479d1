"""The form of a report for people at a terminal: sections as tables and lines, of the width of the screen."""
