"""The formats of archives, one module each, and their detection."""
