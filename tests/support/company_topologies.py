"""Topologies like those of a company: an exchange for each service, its queues, links between services, alternates."""

from __future__ import annotations

from random import Random

from exchange import Binding, Exchange, Queue, Topology
from exchange.partition.partitioning.specification import Partitioning

AREAS = ("order", "billing", "stock", "ship", "user", "mail", "search", "price", "audit", "risk", "claim", "media")
SERVICES = ("core", "api", "sync", "feed", "ops", "eu", "us", "ap")
ENDINGS = ("created", "paid", "done", "failed", "retry", "index", "notify")
TYPES = ("topic",) * 10 + ("direct",) * 4 + ("fanout",) * 3 + ("headers", "x-consistent-hash", "x-random", "x-plugin")
PARTITIONED = Partitioning.parse('kafka.murmur2 over 12 by header "tenant"')


def make_company(exchanges: int, seed: int = 1) -> Topology:
    """Make a topology with this number of exchanges and about three queues for each; a seed makes the same one."""
    rng = Random(seed)
    made = [Exchange("unrouted", "fanout"), Exchange("events", "topic")]
    queues = [Queue("lost-and-found")]
    bindings = [Binding.to_queue("unrouted", "lost-and-found")]
    for number in range(exchanges - 2):
        area = rng.choice(AREAS)
        name = f"{area}-{rng.choice(SERVICES)}-{number}"
        type_ = rng.choice(TYPES)
        made.append(Exchange(name, type_, arguments={"alternate-exchange": "unrouted"} if rng.random() < 0.15 else {}))
        for at in range(rng.choice((0, 1, 1, 1, 2, 2, 2, 3, 3, 5, 12))):
            queue = f"{name}.{rng.choice(ENDINGS)}.{at}"
            arguments = {"x-queue-type": rng.choice(("quorum", "stream"))} if rng.random() < 0.4 else {}
            queues.append(Queue(queue, arguments=arguments, partitioning=PARTITIONED if rng.random() < 0.05 else None))
            bindings += [_bind(rng, name, type_, area, queue) for _ in range(rng.choice((1, 1, 1, 2, 7)))]
        other = rng.choice(made).name
        if rng.random() < 0.35:  # to itself, too, and back, so that there are loops and cycles
            bindings.append(Binding.to_exchange(other, name, f"{area}.#"))
        if rng.random() < 0.02:
            bindings.append(Binding.to_exchange(name, other, "back"))
        if rng.random() < 0.04:
            bindings.append(Binding.to_exchange("events", name, f"{name}.#"))
    return Topology(made, queues, dict.fromkeys(bindings))


def _bind(rng: Random, name: str, type_: str, area: str, queue: str) -> Binding:
    match type_:
        case "topic":
            return Binding.to_queue(name, queue, f"{area}.*.{rng.choice(ENDINGS)}{rng.choice(('', '.v1', '.#'))}")
        case "direct":
            return Binding.to_queue(name, queue, rng.choice((queue, "a", "b")))
        case "headers":
            return Binding.to_queue(name, queue, "", {"x-match": "all", "format": rng.choice(("pdf", "csv"))})
        case "x-consistent-hash":
            return Binding.to_queue(name, queue, str(rng.randint(1, 3)))
        case _:
            return Binding.to_queue(name, queue)
