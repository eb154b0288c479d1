"""Hash functions and key serialisations of the clients, bit for bit."""
