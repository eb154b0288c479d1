"""Fuzzing of everything that reads input from outside: `targets` lists what, ``python -m tests.fuzz --help`` runs it."""
