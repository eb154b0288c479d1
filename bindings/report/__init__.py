"""The report of an audit: one value, derived from a tally and a topology, and its forms for people and programs."""
