"""Route messages through a topology, and explain the routes."""
