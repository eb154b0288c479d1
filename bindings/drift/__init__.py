"""The difference between a topology file and a live broker, once or again and again."""
