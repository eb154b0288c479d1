"""Remove from topology files what decides nothing, where it is proved that no route changes."""
