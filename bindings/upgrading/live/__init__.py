"""A test broker of the new release, asked: what was foretold is compared with what it answers."""
