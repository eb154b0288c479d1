"""RocketMQ's remoting protocol: frames, connections, messages and the client."""
