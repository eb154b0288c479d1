"""Scripts that ask the real clients and brokers what they do, and write it to tests/golden/.

``python -m tests.recorders.NAME`` records anew; the tests read only the files, so they need neither Java nor a server.
"""
