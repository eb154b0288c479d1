"""What messages are read from and written to, a module each; `bridge.endpoint` says what is asked of them."""
