"""Texts: numbers and durations read from them, names made safe to print, and what programs print about themselves."""
