"""The ``.bindings`` language: topologies as text that people write, read and compare line by line."""
