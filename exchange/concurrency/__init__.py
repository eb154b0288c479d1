"""What threads and forked processes share: caches without a lock, and locks that are free in a child."""
