"""The entities of a broker: exchanges, queues, bindings and policies, their arguments and their release profiles."""
