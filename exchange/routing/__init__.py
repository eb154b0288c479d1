"""Where a topology routes a message, and why."""
