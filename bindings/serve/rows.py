"""The bindings of an exchange or a queue as rows: whether a message takes each, and why not."""

from __future__ import annotations

from collections.abc import Collection
from heapq import nsmallest
from typing import Any

from bindings.serve.traffic import ReportTraffic
from bindings.serve.view import View
from bindings.sources.document import Document
from bindings.sources.section import Section
from exchange.entities.entities import Binding, Destination
from exchange.entities.in_force import find_possible_alternates
from exchange.errors import BrokerError, InputError, PatternError
from exchange.kinds import UnknownExchange, find_kind
from exchange.kinds.misses import estimate_distance
from exchange.routing.explain import Explanation
from exchange.topology.topology import Topology
from exchange.values.field_json import decode_table, encode_table
from exchange.values.message import Message
from exchange.values.notation import write_arguments


def list_rows(
    view: View,
    source: str | None,
    destination: Destination | None,
    message: Message | None,
    most: int,
    traffic: ReportTraffic | None,
) -> dict[str, Any]:
    """Return the bindings from an exchange, to a destination, or between both, and the number of those left out.

    With a message, those that it takes come first, then the nearest ones, each with the reason why it is not taken.
    Without one, or if the broker refuses it, they are in the order of the source.
    """
    bindings = _find(view.topology, source, destination)
    explanation = None
    if message is not None:
        try:
            explanation = view.router.explain(message)
        except BrokerError:
            message = None
    if explanation is None or message is None:
        chosen = [*bindings][:most]
    else:
        taken = {binding for hop in explanation.hops for binding in hop.matched}
        given = message
        chosen = nsmallest(
            most, bindings, key=lambda each: (each not in taken, estimate_distance(each.routing_key, given))
        )
    return {
        "rows": [_row(view, binding, explanation, traffic) for binding in chosen],
        "more": len(bindings) - len(chosen),
    }


def describe_part(view: View, part: Destination) -> dict[str, Any]:
    """Return what an exchange or a queue is. Its ``exists`` is false if a binding or an exchange only names it."""
    topology = view.topology
    result: dict[str, Any] = {
        "kind": part.kind,
        "name": part.name,
        "exists": view.exists(part),
        "bindings_to": len(topology.bindings_to(part)),
    }
    if part.kind == "exchange":
        result["bindings_from"] = len(topology.bindings_from(part.name))
    if not result["exists"]:
        return result
    declared = topology.exchanges[part.name] if part.kind == "exchange" else topology.queues[part.name]
    result |= {
        "type": declared.type,
        "durable": declared.durable,
        "auto_delete": declared.auto_delete,
        "arguments": encode_table(declared.arguments),
        "line": view.line_of(declared),
    }
    if part.kind == "exchange":
        exchange = topology.exchanges[part.name]
        result |= {
            "internal": exchange.internal,
            "known": find_kind(exchange) is not UnknownExchange,
            "alternates": [*find_possible_alternates(exchange, topology.policies)],
        }
    else:
        partitioning = topology.queues[part.name].partitioning
        result["partitioning"] = None if partitioning is None else str(partitioning)
    return result


def decode_binding(value: Any) -> Binding:
    """Return the binding of an object as `explain --json` writes it. Raises InputError."""
    texts = ("source", "destination", "destination_type", "routing_key")
    if not isinstance(value, dict) or not all(isinstance(value.get(name), str) for name in texts):
        raise InputError(f"binding: an object with the texts {', '.join(texts)}, and arguments, is wanted")
    if value["destination_type"] not in ("queue", "exchange"):
        raise InputError("binding.destination_type: queue or exchange is wanted")
    destination = Destination(value["destination_type"], value["destination"])
    return Binding(
        value["source"],
        destination,
        value["routing_key"],
        decode_table(value.get("arguments", {}), "binding.arguments"),
    )


def write_line(binding: Binding) -> str:
    """Return the statement of the language of .bindings files that makes a binding."""
    text = Document({"/": Section(Topology(bindings=[binding]))}).dump()
    return text.partition("\n")[2].strip("\n")


def _find(topology: Topology, source: str | None, destination: Destination | None) -> Collection[Binding]:
    if destination is None:
        return topology.bindings_from(source or "")
    bindings = topology.bindings_to(destination)
    return bindings if source is None else [binding for binding in bindings if binding.source == source]


def _row(
    view: View, binding: Binding, explanation: Explanation | None, traffic: ReportTraffic | None
) -> dict[str, Any]:
    matched, reason = (None, None) if explanation is None else _judge(view, binding, explanation)
    use = None if traffic is None else traffic.uses.get(binding)
    return {
        "source": binding.source,
        "destination": binding.destination.name,
        "destination_type": binding.destination.kind,
        "routing_key": binding.routing_key,
        "arguments": encode_table(binding.arguments),
        "condition": write_arguments(binding.arguments) if binding.arguments else "",
        "text": write_line(binding),
        "line": view.line_of(binding),
        "matched": matched,
        "reason": reason,
        "traffic": None if use is None else use._asdict(),
    }


def _judge(view: View, binding: Binding, explanation: Explanation) -> tuple[bool | None, str]:
    """Return whether the message takes the binding (None: not known), and why not."""
    hop = next((hop for hop in explanation.hops if hop.exchange.name == binding.source), None)
    if hop is None:
        return False, f"the message does not get to exchange '{binding.source}'"
    if binding in hop.matched:
        return True, ""
    try:
        miss = find_kind(hop.exchange).miss(binding, explanation.message, view.topology.profile)
    except (BrokerError, PatternError) as error:
        return False, str(error)
    if hop.undecided:
        return None, hop.unsure or miss.reason
    return False, miss.reason
