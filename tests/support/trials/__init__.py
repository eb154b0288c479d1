"""Trials of the facts about releases: each asks a live broker whether it behaves as the fact says."""
