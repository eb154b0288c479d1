"""The partitioners of the clients, one module each."""
