"""Terraform with the provider cyrilgdn/rabbitmq: configurations, plans and states."""
