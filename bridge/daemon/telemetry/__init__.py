"""What a bridge shows of itself to systems that watch it: metrics in Prometheus's format, spans of OpenTelemetry."""
