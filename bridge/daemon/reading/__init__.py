"""What is read of ``bridge.toml``: one pipeline, and its replies. `bridge.daemon.config` reads the file around them."""
