"""What clients ask of a broker, asked of the model of another release: what it would answer."""
