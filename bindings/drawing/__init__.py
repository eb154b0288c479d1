"""Pictures of a topology: what is drawn, where it goes, and the SVG or the text."""
