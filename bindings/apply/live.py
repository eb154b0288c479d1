"""What only the management API tells or does: the state of a virtual host, policies, and bindings by what they hold.

The API shows arguments as JSON, in which AMQP's types look alike. But it names each binding by a hash of its arguments,
types included; so a binding that is wanted is recognised by that, and one that is not can be deleted by its name.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from bindings.sources.management import Management
from exchange.entities.entities import Binding, Destination, Policy, Queue
from exchange.entities.profile import profile_for
from exchange.erlang_terms import encode_binary
from exchange.errors import InputError
from exchange.field_json import decode_table
from exchange.field_values import EMPTY, FieldTable, thaw, type_and_value
from exchange.partition.hashing.erlang import Atom, field_term, phash2
from exchange.topology.topology import Topology

__all__ = ["Live", "as_sent", "name_of_arguments"]

UNDEFINED_TYPES: Final = (None, "undefined", '<<"undefined">>', "classic")
"""What a virtual host's default queue type is where it has none, or the usual one."""

KINDS: Final[Mapping[str, str]] = {"queue": "q", "exchange": "e"}


class Live:
    """One virtual host of a live broker. Every method raises InputError that says what went wrong."""

    def __init__(self, management: Management, vhost: str) -> None:
        self.management: Final = management
        self.vhost: Final = vhost
        self._path: Final = quote(vhost, safe="")

    @property
    def cluster(self) -> str:
        """The name that the broker gives its cluster."""
        return self.management.overview("cluster_name")

    def topology(self, wanted: Topology) -> Topology:
        """What it has now; bindings whose arguments are those of wanted ones, types included, are these."""
        definitions = self.management.definitions(self.vhost)
        profile = profile_for(definitions.rabbitmq_version or self.management.version())
        shown = definitions.topology(self.vhost, profile)
        if all(binding in shown.bindings for binding in wanted.bindings if binding.arguments):
            return shown
        named = {
            (binding[:3], name_of_arguments(binding.arguments)): binding
            for binding in wanted.bindings
            if binding.arguments
        }
        bindings = [binding for binding in shown.bindings if not binding.arguments]
        for binding, name in self._named(self._list("bindings/{}", ())):
            if binding.arguments and binding.source:
                bindings.append(named.get((binding[:3], name.rpartition("~")[2]), binding))
        return Topology(
            shown.exchanges.values(), shown.queues.values(), bindings, shown.policies.values(),
            vhost=self.vhost, profile=profile,
        )  # fmt: skip

    def as_declared(self, topology: Topology) -> Topology:
        """The topology that comes of declaring this one here.

        Durable queues get the virtual host's default type where they say none, and line ends go from names.
        """
        known = self._get("vhosts/{}", ()) or {}
        if not isinstance(known, dict):
            raise self._foreign("vhosts")
        default = known.get("default_queue_type")
        queue_type = None if default in UNDEFINED_TYPES else default
        if queue_type is None and not any(set("\r\n") & set(name) for name in (*topology.exchanges, *topology.queues)):
            return topology
        return Topology(
            [replace(exchange, name=as_sent(exchange.name)) for exchange in topology.exchanges.values()],
            [replace(_of_type(queue, queue_type), name=as_sent(queue.name)) for queue in topology.queues.values()],
            [
                binding._replace(
                    source=as_sent(binding.source),
                    destination=binding.destination._replace(name=as_sent(binding.destination.name)),
                )
                for binding in topology.bindings
            ],
            topology.policies.values(),
            vhost=topology.vhost,
            profile=topology.profile,
        )

    def set_policy(self, policy: Policy) -> None:
        """Add a policy or replace the one of its name."""
        body = {"pattern": policy.pattern, "apply-to": policy.apply_to, "priority": policy.priority}
        self.management.request(
            "PUT", self._at("policies/{}/{}", (policy.name,)), {**body, "definition": thaw(policy.definition)}
        )

    def clear_policy(self, name: str) -> None:
        """Remove a policy; one that is gone already is no error."""
        try:
            self.management.request("DELETE", self._at("policies/{}/{}", (name,)))
        except InputError:
            if any(policy.get("name") == name for policy in self._list("policies/{}", ())):
                raise

    def unbind(self, binding: Binding) -> bool:
        """Remove a binding whose arguments show as these but are of other types; False if there is no such one.

        Then these are its types, and AMQP can remove it.
        """
        kind, name = binding.destination
        ends = (binding.source, name)
        where = f"bindings/{{}}/e/{{}}/{KINDS[kind]}/{{}}"
        alike = [
            key
            for shown, key in self._named(self._list(where, ends))
            if (shown.routing_key, shown.arguments) == (binding.routing_key, binding.arguments)
        ]
        if not alike or name_of_arguments(binding.arguments) in [key.rpartition("~")[2] for key in alike]:
            return False
        self.management.request("DELETE", self._at(where + "/{}", (*ends, alike[0])))
        return True

    def _named(self, items: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Binding, str]]:
        for item in items:
            names = [item.get(key) for key in ("source", "destination", "routing_key", "properties_key")]
            if not all(isinstance(name, str) for name in names):
                raise self._foreign("bindings")
            source, destination, routing_key, key = map(str, names)
            given = item.get("arguments")
            arguments = FieldTable(decode_table(given, "arguments of a binding")) if given else EMPTY
            end = Destination("queue" if item.get("destination_type") == "queue" else "exchange", destination)
            yield Binding(source, end, routing_key, arguments), key

    def _list(self, path: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
        found = self._get(path, names)
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise self._foreign(path.partition("/")[0])
        return found

    def _foreign(self, what: str) -> InputError:
        return InputError(f"{self.management.address}: what answers is no management API: it gives no {what}")

    def _get(self, path: str, names: tuple[str, ...]) -> Any:
        return self.management.request("GET", self._at(path, names))

    def _at(self, path: str, names: tuple[str, ...]) -> str:
        return "/api/" + path.format(self._path, *(quote(name, safe="") for name in names))


def name_of_arguments(arguments: Mapping[str, Any]) -> str:
    """The end of the name that the management API gives a binding (`rabbit_mgmt_format:args_hash/1`)."""
    fields = [(key, *type_and_value(value)) for key, value in arguments.items()]
    try:
        number = phash2(
            [
                (encode_binary(key), Atom(kind), field_term(kind, value))
                for key, kind, value in sorted(fields, key=_key)
            ],
            2**32,
        )
    except TypeError:
        return ""  # which names none
    return urlsafe_b64encode(number.to_bytes(4, "big")).decode().rstrip("=")


def _key(field: tuple[str, str, Any]) -> bytes:
    return encode_binary(field[0])


def as_sent(name: str) -> str:
    """The name as a broker reads it."""
    return name.replace("\n", "").replace("\r", "")


def _of_type(queue: Queue, default: str | None) -> Queue:
    if default is None or "x-queue-type" in queue.arguments or not queue.durable:
        return queue
    return replace(queue, arguments={**queue.arguments, "x-queue-type": default})
