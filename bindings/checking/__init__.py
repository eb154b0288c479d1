"""What is wrong, doubtful or worth knowing about a topology, each with a witness and a way out."""
