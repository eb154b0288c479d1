"""Record what Celery sends: the messages of the random apps of `tests/support/celery_apps.py`, and what they declare.

``PYTHONPATH=. PYTHON -m tests.recorders.celery_sends`` with a Python that has the version of Celery, and nothing else.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import celery
from celery.beat import ScheduleEntry, Scheduler, SchedulingError
from kombu.transport import memory

from tests.recorders.golden import write
from tests.support.celery_apps import APPS, RandomApp, random_app

PUBLISHED: list[tuple[str, str]] = []
PRIORITIES: list[int | None] = []
DECLARED: dict[tuple[str, ...], None] = {}


class Channel(memory.Channel):  # type: ignore[misc]
    """A channel that keeps what a client publishes and declares."""

    def prepare_message(self, body: Any, priority: int | None = None, *args: Any, **options: Any) -> Any:
        """Keep the priority, before the transport fills in its own."""
        PRIORITIES.append(priority)
        return super().prepare_message(body, priority, *args, **options)

    def basic_publish(self, message: Any, exchange: str, routing_key: str, **_options: Any) -> None:
        """Keep the address."""
        del message
        PUBLISHED.append((exchange or "", routing_key or ""))

    def exchange_declare(self, exchange: str | None = None, **options: Any) -> None:
        """Keep an exchange."""
        if not options.get("passive"):
            DECLARED["exchange", str(exchange), options.get("type", "direct")] = None

    def queue_declare(self, queue: str | None = None, **options: Any) -> Any:
        """Keep a queue."""
        DECLARED["queue", str(queue)] = None
        return super().queue_declare(queue=queue, **options)

    def queue_bind(self, queue: str, exchange: str | None = None, routing_key: str = "", **_options: Any) -> None:
        """Keep a binding."""
        DECLARED["bind", str(queue), str(exchange), routing_key or ""] = None


def record(app: RandomApp, module: Any) -> dict[str, Any]:
    """Return what an app declares and sends."""
    DECLARED.clear()
    real = module.app
    real.finalize()
    with real.connection_for_write() as connection:
        for queue in list(real.amqp.queues.values()):
            queue(connection.channel()).declare()
    ways: dict[str, list[Any]] = {}
    for sending in app.sendings:
        PUBLISHED.clear()
        PRIORITIES.clear()
        try:
            if sending.label.startswith("call"):
                getattr(module, sending.label.replace(" ", "_"))()
            elif sending.label.startswith("beat"):
                name = sending.label.removeprefix("beat ")
                entry = ScheduleEntry(app=real, name=name, **real.conf.beat_schedule[name])
                Scheduler(app=real, lazy=True).apply_async(entry, advance=False)
            else:
                real.tasks[sending.task].apply_async()
        except Exception as error:  # noqa: BLE001  it is what is recorded
            cause = error.__context__ if isinstance(error, SchedulingError) else error
            ways[sending.label] = [type(cause).__name__]
        else:
            [way], [priority] = PUBLISHED, PRIORITIES
            ways[sending.label] = [*way, priority]
    return {"declared": [list(each) for each in DECLARED], "ways": ways}


def main() -> None:
    """Record all apps."""
    memory.Transport.Channel = Channel
    apps = []
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        for seed in range(APPS):
            memory.Transport.global_state.clear()
            app = random_app(seed)
            Path(folder, f"random_app_{seed}.py").write_text(app.source)
            importlib.invalidate_caches()
            apps.append(record(app, importlib.import_module(f"random_app_{seed}")))
    write(
        f"celery-{celery.__version__}", "celery", celery.__version__, {str(seed): app for seed, app in enumerate(apps)}
    )


if __name__ == "__main__":
    main()
