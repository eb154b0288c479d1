"""Dead letters: what a queue, a topic or an archive of them holds, why each died, and where it would go now."""
