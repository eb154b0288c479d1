"""RocketMQ's remoting protocol on asyncio: frames, connections, and the clients that produce and consume over them.

Everything lives on one event loop, without threads. `remoting` is bytes in, commands out; `channel` is one connection;
`client` knows a cluster: name servers, routes, heartbeats. Its gRPC protocol cannot say which queue a message is for.
"""
