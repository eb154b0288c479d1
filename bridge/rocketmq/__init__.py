"""RocketMQ's remoting protocol on asyncio: frames, connections, and the clients that produce and consume over them.

Everything lives on one event loop, without threads. `remoting` has the protocol, the connections, and the client of a
cluster: name servers, routes, heartbeats; `producer` and `consumer` are built on it. RocketMQ's gRPC protocol is not
used: it cannot name the queue that a message is for.
"""
