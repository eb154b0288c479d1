"""The route names a queue that there is not."""

from celery import Celery
from kombu import Exchange, Queue

app = Celery("shop", broker="amqp://")
app.conf.task_queues = [Queue("mail", Exchange("tasks"), routing_key="mail")]
app.conf.task_default_queue = "mail"
app.conf.task_create_missing_queues = False
app.conf.task_routes = {"send_reminder": "mails"}


@app.task(name="send_reminder")
def send_reminder() -> None:
    """Send a reminder."""
