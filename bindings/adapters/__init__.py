"""RabbitMQ's routing inside other libraries: kombu and Celery, FastStream, aio-pika and pika.

Each module needs its library, an extra of the same name, and is imported only on request:
``import bindings`` imports none of them. docs/adapters.md compares each library with RabbitMQ.
"""
