"""What a broker declares: exchanges, queues, bindings and policies, their arguments and their release profiles."""
