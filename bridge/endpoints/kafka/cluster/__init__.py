"""What sources and targets share: addresses of a cluster, questions to its brokers, its errors and health."""
