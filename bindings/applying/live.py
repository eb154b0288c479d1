"""A virtual host by its management API: its state, its policies, and the exact types of arguments of bindings.

The API shows arguments as JSON, which does not distinguish AMQP's types. But it names each binding by a hash of its
arguments, types included. So a wanted binding is recognised by its name, and any other one can be deleted by its name.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from bindings.sources.definitions.hosts import explain_no_vhost
from bindings.sources.management import Management, build_unread_queues
from bindings.sources.open import Source
from exchange.entities.entities import Binding, Destination, Policy, Queue
from exchange.entities.releases import find_profile
from exchange.errors import InputError
from exchange.partition.hashing.erlang import Atom, encode_field_term, phash2
from exchange.topology.rules import strip_line_ends
from exchange.topology.topology import Topology
from exchange.values.erlang_terms import encode_binary
from exchange.values.field_json import decode_table
from exchange.values.field_values import EMPTY, FieldTable, resolve_type, thaw

UNDEFINED_TYPES: Final = (None, "undefined", '<<"undefined">>', "classic")
"""Values of a virtual host's default queue type that mean classic, the usual type."""

KINDS: Final[Mapping[str, str]] = {"queue": "q", "exchange": "e"}


def choose_topology(source: Source, vhost: str | None, management: Management) -> Topology:
    """Return the topology that a broker is to have: of ``vhost``, else of the address's, else of the only one.

    Raises InputError if the source has no such virtual host, or several to choose from.
    """
    if vhost is None and management.vhost is not None and management.vhost not in source.vhosts:
        absent = explain_no_vhost(management.vhost, source.vhosts)
        named = f"{management.address}/{quote(source.vhosts[0], safe='')}"
        raise InputError(f"{source.name}: {absent}; write {named}, or name it {management.vhost!r} in the file")
    return source.topology(vhost or management.vhost)


class Live:
    """One virtual host of a live broker. Every method raises InputError if the broker cannot be asked."""

    def __init__(self, management: Management, vhost: str) -> None:
        self.management: Final = management
        self.vhost: Final = vhost
        self._path: Final = quote(vhost, safe="")

    @property
    def cluster(self) -> str:
        """The name that the broker gives its cluster."""
        return self.management.overview("cluster_name")

    def topology(self, wanted: Topology) -> Topology:
        """Return what the broker has now.

        JSON does not show the types of arguments. So a binding whose arguments have the same hash as those of a wanted
        binding is returned as that binding.
        """
        definitions = self.management.definitions(self.vhost)
        profile = find_profile(definitions.rabbitmq_version or self.management.version())
        current = definitions.topology(self.vhost, profile)
        if all(binding in current.bindings for binding in wanted.bindings if binding.arguments):
            return current
        by_name = {
            (binding[:3], hash_arguments(binding.arguments)): binding
            for binding in wanted.bindings
            if binding.arguments
        }
        bindings = [binding for binding in current.bindings if not binding.arguments]
        for binding, name in self._with_names(self._list("bindings/{}", ())):
            if binding.arguments and binding.source:
                bindings.append(by_name.get((binding[:3], name.rpartition("~")[2]), binding))
        return current.with_parts(bindings=bindings)

    def exclusive_queues(self) -> list[str]:
        """Return the names of the queues that are exclusive to a connection, which `topology` does not have."""
        return self.management.exclusive_queues(self.vhost).get(self.vhost, [])

    def mark_unread(self, topology: Topology, queues: Sequence[str]) -> Topology:
        """Return a topology of this virtual host, which says that these exclusive queues are missing in it."""
        return topology.with_unread([build_unread_queues(self.vhost, queues)] if queues else [])

    def as_declared(self, topology: Topology) -> Topology:
        """Return the topology that the broker would have after this one was declared.

        Durable queues without a type get the default type of the virtual host, and names lose their line breaks.
        """
        known = self._get("vhosts/{}", ()) or {}
        if not isinstance(known, dict):
            raise self._foreign("vhosts")
        default = known.get("default_queue_type")
        queue_type = None if default in UNDEFINED_TYPES else default
        if queue_type is None and not any(set("\r\n") & set(name) for name in (*topology.exchanges, *topology.queues)):
            return topology
        return topology.with_parts(
            exchanges=[
                replace(exchange, name=strip_line_ends(exchange.name)) for exchange in topology.exchanges.values()
            ],
            queues=[
                replace(_of_type(queue, queue_type), name=strip_line_ends(queue.name))
                for queue in topology.queues.values()
            ],
            bindings=[
                binding._replace(
                    source=strip_line_ends(binding.source),
                    destination=binding.destination._replace(name=strip_line_ends(binding.destination.name)),
                )
                for binding in topology.bindings
            ],
        )

    def set_policy(self, policy: Policy) -> None:
        """Add a policy, or replace the one with its name."""
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
        """Remove a binding whose arguments are equal in JSON but have other types; return whether there was one.

        If there was none, the broker's binding has exactly these types, and AMQP can remove it.
        """
        kind, name = binding.destination
        ends = (binding.source, name)
        where = f"bindings/{{}}/e/{{}}/{KINDS[kind]}/{{}}"
        alike = [
            key
            for other, key in self._with_names(self._list(where, ends))
            if (other.routing_key, other.arguments) == (binding.routing_key, binding.arguments)
        ]
        if not alike or hash_arguments(binding.arguments) in [key.rpartition("~")[2] for key in alike]:
            return False
        self.management.request("DELETE", self._at(where + "/{}", (*ends, alike[0])))
        return True

    def _with_names(self, items: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Binding, str]]:
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
        items = self._get(path, names)
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._foreign(path.partition("/")[0])
        return items

    def _foreign(self, what: str) -> InputError:
        return InputError(f"{self.management.address}: what answers is no management API: it gives no {what}")

    def _get(self, path: str, names: tuple[str, ...]) -> Any:
        return self.management.request("GET", self._at(path, names))

    def _at(self, path: str, names: tuple[str, ...]) -> str:
        return "/api/" + path.format(self._path, *(quote(name, safe="") for name in names))


def hash_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the hash that ends the management API's name of a binding (`rabbit_mgmt_format:args_hash/1`)."""
    fields = [(key, *resolve_type(value)) for key, value in arguments.items()]
    try:
        number = phash2(
            [
                (encode_binary(key), Atom(kind), encode_field_term(kind, value))
                for key, kind, value in sorted(fields, key=lambda field: encode_binary(field[0]))
            ],
            2**32,
        )
    except TypeError:
        return ""  # not known for such arguments; no binding has this hash
    return urlsafe_b64encode(number.to_bytes(4, "big")).decode().rstrip("=")


def _of_type(queue: Queue, default: str | None) -> Queue:
    if default is None or "x-queue-type" in queue.arguments or not queue.durable:
        return queue
    return replace(queue, arguments={**queue.arguments, "x-queue-type": default})
