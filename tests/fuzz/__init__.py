"""Fuzzing of all that reads input from outside: `targets` lists what, ``python -m tests.fuzz --help`` how."""
