"""The rules, one module per family: each goes through a topology and yields its findings."""
