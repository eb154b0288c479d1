"""Commands that ask a bridge that runs, by its HTTP interface: what state it is in, and to change it."""
