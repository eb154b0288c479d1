"""Check whether the task messages of a Celery app reach the queues that its routes name.

``hashstar check celery:PACKAGE.MODULE:APP`` is the same as a command.
"""

from __future__ import annotations

from typing import Any

from exchange.text.site import build_install_command

try:
    import celery as _celery  # noqa: F401  named in the error, not used
except ImportError:
    raise ImportError(f"bindings.adapters.celery needs Celery: {build_install_command('celery')}") from None

from bindings.checking.check import find_all, list_findings
from bindings.checking.rules import tasks
from bindings.checking.rules.finding import Finding
from bindings.sources.applications.celery import read_app, topology_of
from exchange.topology.topology import Topology

__all__ = ["check_app", "topology_of"]


def check_app(app: Any, topology: Topology | None = None) -> list[Finding]:
    """Return the findings about a Celery app, those about its tasks and those about the topology that results.

    ``topology`` is what the broker has before the app starts; without it, exchanges and queues are only those that the
    app declares. A task whose messages go to another queue, or to none, is a finding:

    >>> from celery import Celery
    >>> app = Celery("shop")
    >>> app.conf.task_create_missing_queues = False
    >>> app.conf.task_routes = {"send_mail": "mails"}
    >>> send_mail = app.task(lambda: None, name="send_mail")
    >>> [finding.code for finding in check_app(app) if finding.rule.severity == "error"]
    ['HS813']

    Raises InputError if Celery cannot read its settings.
    """
    application = read_app(app, Topology() if topology is None else topology)
    after = application.declared.topology
    return list_findings([*tasks.find(application), *find_all(after, filled_in=application.filled_in)], after)
