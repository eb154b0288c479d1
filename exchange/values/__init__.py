"""AMQP's values: a message and its typed fields, and how they are written as JSON, as text, and by Erlang."""
