"""The process around the pump: configuration, workers, HTTP, metrics and the log."""
