"""Testing against a topology without a broker."""
