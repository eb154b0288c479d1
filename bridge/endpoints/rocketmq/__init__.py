"""RocketMQ as a source and as a target."""
