"""What the bindings do: topologies as files, and how they behave. Imports `exchange` and nothing above it."""
