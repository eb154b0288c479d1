"""The name of the queue in the route is misspelt."""

from celery import Celery
from kombu import Exchange, Queue

app = Celery("shop", broker="amqp://")
app.conf.task_queues = [Queue("mail", Exchange("tasks"), routing_key="mail")]
app.conf.task_default_queue = "mail"
app.conf.task_routes = {"send_greeting": "mails"}


@app.task(name="send_greeting")
def send_greeting() -> None:
    """Send a greeting."""
