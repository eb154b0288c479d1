"""Registries of schemas: bodies that are framed with the id of a schema, and the fields in them."""
