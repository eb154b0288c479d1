"""The columns that all counts share."""
