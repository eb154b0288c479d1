"""RabbitMQ's definitions.json as a value: topologies to route with, and everything else kept as it was.

Invariant: ``loads(text).dump()`` is the same JSON as ``text``, the order of lists and keys included (of a key given
twice in one object the last counts, as for any JSON parser). Each exchange, queue, policy and binding is kept as what
it means and as how it is written; an edit rewrites the fields that differ and nothing else. Bindings become compact
while the text is parsed, so that a million of them never exist as dicts.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple, TypeAlias
from warnings import catch_warnings, simplefilter

from exchange.errors import InputError
from exchange.kinds import KINDS
from exchange.parts import PREDECLARED, Binding, Destination, Exchange, Policy, Queue
from exchange.profile import LATEST, Profile
from exchange.topology import Topology
from exchange.typed_json import decode_table, encode_table
from exchange.values import EMPTY, FieldTable

__all__ = ["Definitions", "topology_from"]

Part: TypeAlias = Exchange | Queue | Policy | Binding
Object: TypeAlias = dict[str, Any]

DESTINATIONS: Final[Mapping[str, Literal["queue", "exchange"]]] = {"queue": "queue", "exchange": "exchange"}
RESERVED: Final = {exchange.name: exchange for exchange in PREDECLARED}
APPLY_TO: Final = ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams")


class _Form(NamedTuple):
    """How a part is written: its virtual host, None when it does not say, and the object itself.

    A binding that its values alone can reproduce has the order of its keys instead; many bindings share such a form.
    """

    vhost: str | None
    written: Object | None
    keys: tuple[str, ...] = ()


class _Entry(NamedTuple):
    """What a part means and how it is written."""

    part: Any
    form: _Form

    def object(self) -> Object:
        """What it is written as."""
        if self.form.written is not None:
            return self.form.written
        fields = {**_binding_object(self.part), "vhost": self.form.vhost}
        return {key: fields[key] for key in self.form.keys}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Definitions:
    """The definitions of a broker or of one virtual host; immutable. ``Definitions()`` has nothing in it.

    Exports of one virtual host leave the field "vhost" out; what does not say its virtual host is in
    ``default_vhost``: the one given when loading, else the export's own "original_vhost_name", else "/". That choice
    is not written back. Equal when they are the same JSON, lists in the same order, and the default is the same.
    """

    default_vhost: str = "/"
    _document: Mapping[str, Any] = field(default_factory=dict)  # the file, with entries in the sections of SECTIONS

    @classmethod
    def load(cls, path: str | os.PathLike[str], vhost: str | None = None) -> Definitions:
        """Read a file, gzipped or not. Raises InputError naming the file and the place in it."""
        name = os.fspath(path)
        return cls._of(_parsed(_decoded(_content(name), name), name), name, vhost)

    @classmethod
    def loads(cls, text: str | bytes, name: str = "definitions", vhost: str | None = None) -> Definitions:
        """Read a text, which errors call ``name``. Raises InputError naming the place in it."""
        return cls._of(_parsed(_decoded(text, name) if isinstance(text, bytes) else text, name), name, vhost)

    @classmethod
    def _of(cls, document: Object, name: str, vhost: str | None) -> Definitions:
        try:
            for key, section in document.items():
                document[key] = _entries(section, key) if key in SECTIONS else _expanded(section)
            _check_vhosts(document.get("vhosts", []))
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        except RecursionError:
            raise InputError(f"{name}: nested too deeply") from None
        original = document.get("original_vhost_name")
        return cls(vhost if vhost is not None else original if isinstance(original, str) else "/", document)

    @property
    def rabbitmq_version(self) -> str | None:
        """The version of the server that exported them, if they say; `exchange.profile.profile_for` takes it."""
        version = self._document.get("rabbitmq_version", self._document.get("rabbit_version"))
        return version if isinstance(version, str) else None

    @property
    def vhosts(self) -> tuple[str, ...]:
        """The virtual hosts that are listed, then those that are only used; the default one if that makes none."""
        listed = (vhost["name"] for vhost in self._document.get("vhosts", ()))
        return tuple(dict.fromkeys([*listed, *self._used()])) or (self.default_vhost,)

    def topology(self, vhost: str | None = None, profile: Profile | str | None = None) -> Topology:
        """The topology of a virtual host, under the newest profile unless one is given.

        Without ``vhost``: the only one with anything in it, else "/", else the only one there is. As in RabbitMQ's
        import (`rabbit_definitions.erl`), the default exchange, its bindings and attributes that contradict a
        predeclared exchange's are left out, and of exchanges and queues of the same name the first counts, of policies
        the last. Raises InputError when there is no such virtual host, or several to choose from.
        """
        vhost = self._chosen() if vhost is None else vhost
        if vhost not in self.vhosts:
            raise InputError(f"there is no virtual host {vhost!r}; there are {_listed(self.vhosts)}")
        return Topology(
            [part for name, part in self._named("exchanges", vhost).items() if name not in RESERVED],
            self._named("queues", vhost).values(),
            [entry.part for entry in self._in("bindings", vhost) if entry.part.source],
            self._named("policies", vhost).values(),
            vhost=vhost,
            profile=LATEST if profile is None else profile,
        )

    def with_topology(self, topology: Topology) -> Definitions:
        """The definitions in which the exchanges, queues, bindings and policies of its virtual host are a topology's.

        What stays the same stays as it is written and where it stands; what changes keeps its other fields; what is
        new comes last. Predeclared exchanges and bindings from the default exchange are not written, but stay if they
        are there (those bindings as long as their queue). The virtual host is listed if nothing else would name it.
        """
        document = dict(self._document)
        vhost = topology.vhost
        said = None if self._of_one_vhost() and vhost == self.default_vhost else vhost
        parts: dict[str, Mapping[str, Part]] = {
            "exchanges": {name: part for name, part in topology.exchanges.items() if name not in RESERVED},
            "queues": topology.queues,
            "policies": topology.policies,
        }
        edited = {key: self._edited(key, parts[key], vhost, said) for key in parts}
        edited["bindings"] = self._edited_bindings(topology, said)
        document |= {key: entries for key, entries in edited.items() if entries or key in document}
        after = Definitions(self.default_vhost, document)  # not handed out yet, so its document may still change
        if vhost not in after.vhosts or (said is not None and vhost not in self.vhosts):
            document["vhosts"] = [*document.get("vhosts", ()), {"name": vhost}]
        return after

    @property
    def warnings(self) -> list[str]:
        """What RabbitMQ's import would skip, refuse or read otherwise, and what routing cannot follow.

        Each names its place: exchanges of unknown type, null and typed arguments, policies that apply to nothing,
        names RabbitMQ reserves, and parts that are there twice. Computed anew each time, in one pass.
        """
        findings: list[str] = []
        for key in SECTIONS:
            seen: set[tuple[str, Any]] = set()
            for index, entry in enumerate(self._document.get(key, ())):
                place = f"{key}[{index}]"
                part = entry.part
                identity = (self._vhost(entry), part if key == "bindings" else part.name)
                if identity in seen:
                    findings.append(f"{place}: {_named(part)} is here again; {AGAIN[key]}")
                seen.add(identity)
                findings.extend(f"{place}{finding}" for finding in _findings(entry))
        return findings

    def dump(self) -> str:
        """The JSON text: every exchange, queue, binding ... on its own line, so that versions compare well."""
        return "".join(self._chunks())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, gzipped if its name ends with ".gz"; what was there stays until all is written.

        Raises InputError when it cannot be written.
        """
        name = os.fspath(path)
        partial = Path(f"{name}.part")
        try:
            with partial.open("wb") as raw, _compressed(raw) if name.endswith(".gz") else nullcontext(raw) as file:
                file.writelines(chunk.encode() for chunk in self._chunks())
            partial.replace(name)
        except OSError as error:
            raise InputError(f"{name}: cannot be written: {error}") from None
        finally:
            partial.unlink(missing_ok=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Definitions):
            return NotImplemented
        mine, theirs = self._document, other._document
        same = (self.default_vhost, mine.keys()) == (other.default_vhost, theirs.keys())
        return same and all(_same_section(mine[key], theirs[key]) for key in mine)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = (f"{len(self._document[key])} {key}" for key in SECTIONS if key in self._document)
        return f"<Definitions of {_listed(self.vhosts)}: {', '.join(counts) or 'nothing'}>"

    def _vhost(self, entry: _Entry) -> str:
        vhost = entry.form.vhost
        return self.default_vhost if vhost is None else vhost

    def _used(self) -> dict[str, None]:
        """The virtual hosts that anything is in, in the order they are met."""
        forms = {entry.form.vhost: None for key in SECTIONS for entry in self._document.get(key, ())}
        return {self.default_vhost if vhost is None else vhost: None for vhost in forms}

    def _chosen(self) -> str:
        used, vhosts = self._used(), self.vhosts
        if len(used) == 1:
            return next(iter(used))
        if "/" in vhosts:
            return "/"
        if len(vhosts) == 1:
            return vhosts[0]
        raise InputError(f"which virtual host? There are {_listed(vhosts)}")

    def _in(self, key: str, vhost: str) -> list[_Entry]:
        said = {vhost, None} if vhost == self.default_vhost else {vhost}
        return [entry for entry in self._document.get(key, ()) if entry.form.vhost in said]

    def _named(self, key: str, vhost: str) -> dict[str, Any]:
        """The parts in force, by name."""
        parts: dict[str, Any] = {}
        for entry in self._in(key, vhost):
            if key == "policies" or entry.part.name not in parts:
                parts[entry.part.name] = entry.part
        return parts

    def _of_one_vhost(self) -> bool:
        entries = [entry for key in SECTIONS for entry in self._document.get(key, ())]
        return "vhosts" not in self._document and (
            "original_vhost_name" in self._document
            or (bool(entries) and all(entry.form.vhost is None for entry in entries))
        )

    def _edited(self, key: str, parts: Mapping[str, Part], vhost: str, said: str | None) -> list[_Entry]:
        before = self._named(key, vhost)
        changes = {name: _change(before[name], parts[name]) for name in before if name in parts}
        entries = []
        for entry in self._document.get(key, ()):
            name = entry.part.name
            if self._vhost(entry) != vhost or (key == "exchanges" and name in RESERVED):
                entries.append(entry)
            elif name in parts and not changes[name]:
                entries.append(entry)  # also where it is there twice
            elif name in parts and entry.part is before[name]:
                entries.append(
                    _Entry(parts[name], _Form(entry.form.vhost, _rewritten(entry, parts[name], changes[name])))
                )
        for name, part in parts.items():
            if name not in before:
                entries.append(_Entry(part, _Form(said, _with_vhost(said, WRITERS[type(part)](part)))))
        return entries

    def _edited_bindings(self, topology: Topology, said: str | None) -> list[_Entry]:
        wanted, vhost = topology.bindings, topology.vhost
        there = {entry.part for entry in self._in("bindings", vhost)}
        entries = [
            entry
            for entry in self._document.get("bindings", ())
            if self._vhost(entry) != vhost
            or (entry.part in wanted if entry.part.source else entry.part.destination.name in topology.queues)
        ]
        keys = tuple(_with_vhost(said, _binding_object(Binding("", Destination("queue", "")))))
        form = _Form(said, None, keys)
        entries += [_Entry(part, form) for part in wanted if part.source and part not in there]
        return entries

    def _chunks(self) -> Iterator[str]:
        comma = "{"
        for key, section in self._document.items():
            yield f"{comma}\n {ENCODE(key)}: "
            comma = ","
            if isinstance(section, list) and section:
                yield "[\n  "
                yield from _joined(",\n  ", map(ENCODE, _written(section)))
                yield "\n ]"
            else:
                yield ENCODE(section)
        yield "\n}\n" if self._document else "{}\n"


def topology_from(
    path: str | os.PathLike[str], vhost: str | None = None, profile: Profile | str | None = None
) -> Topology:
    """The topology in a definitions file; ``vhost`` and ``profile`` as in `Definitions.topology`.

    A ``vhost`` given also names the virtual host of an export that does not say. Raises InputError naming the file.
    """
    definitions = Definitions.load(path, vhost)
    try:
        return definitions.topology(vhost, profile)
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from None


def _content(name: str) -> bytes:
    try:
        data = Path(name).read_bytes()
        return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name}: cannot be read: {error}") from None


def _compressed(file: BinaryIO) -> gzip.GzipFile:
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0)  # no name and no time: equal definitions, equal files


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 at byte {error.start}; definitions are JSON in UTF-8") from None


def _parsed(text: str, name: str) -> Object:
    try:
        document = json.loads(text, object_hook=_Compactor(), parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    except ValueError as error:
        raise InputError(f"{name}: not JSON: {error}") from None
    except RecursionError:
        raise InputError(f"{name}: nested too deeply") from None
    if not isinstance(document, dict):
        raise InputError(f'{name}: not definitions, which are an object: {{"exchanges": [...], "queues": [...], ...}}')
    return document


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number that JSON has")
    return number


class _Compactor:
    """The object hook of the parser: makes an entry of each plain binding as soon as it is read.

    It does not see where an object stands: what turns out not to be in "bindings" is turned back by `_expanded`.
    """

    def __init__(self) -> None:
        self._forms: dict[tuple[str, ...], dict[str | None, _Form]] = {}
        self._destinations: dict[tuple[str, str], Destination] = {}
        self._names: dict[str, str] = {}

    def __call__(self, item: Object) -> Object | _Entry:
        if len(item) not in (5, 6):
            return item
        keys = tuple(item)
        forms = self._forms.get(keys)
        if forms is None:
            if {*keys, "vhost"} != BINDING_KEYS:
                return item
            forms = self._forms[keys] = {}
        vhost, source, kind, name = item.get("vhost", ""), item["source"], item["destination_type"], item["destination"]
        routing_key, arguments = item["routing_key"], item["arguments"]
        if not (type(vhost) is type(source) is type(kind) is type(name) is type(routing_key) is str):
            return item
        destination = self._destinations.get((kind, name))
        if destination is None:
            if kind not in DESTINATIONS:
                return item
            destination = self._destinations[kind, name] = Destination(DESTINATIONS[kind], name)
        table = EMPTY if arguments == {} else _plain(arguments)
        if table is None:
            return item
        form = forms.get(vhost)
        if form is None:
            form = forms[vhost] = _Form(vhost if "vhost" in item else None, None, keys)
        source = self._names.setdefault(source, source)
        return _Entry(Binding(source, destination, routing_key, table), form)


def _plain(arguments: Any) -> FieldTable | None:
    """The table, if writing it gives the same JSON again."""
    try:
        table = decode_table(arguments)
    except (InputError, RecursionError):
        return None  # the error is raised where the place is known
    return FieldTable(table) if table == arguments else None


def _expanded(value: Any) -> Any:
    if isinstance(value, _Entry):
        return value.object()
    if isinstance(value, dict):
        return {key: _expanded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item) for item in value]
    return value


def _entries(section: Any, key: str) -> list[_Entry]:
    _require(isinstance(section, list), key, section, "not an array")
    if key == "bindings" and all(type(item) is _Entry for item in section):
        return list(section)
    return [
        item if key == "bindings" and type(item) is _Entry else _entry(_expanded(item), key, f"{key}[{index}]")
        for index, item in enumerate(section)
    ]


def _entry(item: Any, key: str, place: str) -> _Entry:
    _require(isinstance(item, dict), place, item, "not an object")
    vhost = _text(item, "vhost", place) if "vhost" in item else None
    return _Entry(SECTIONS[key](item, place), _Form(vhost, item))


def _check_vhosts(section: Any) -> None:
    _require(isinstance(section, list), "vhosts", section, "not an array")
    for index, item in enumerate(section):
        _require(isinstance(item, dict), f"vhosts[{index}]", item, "not an object")
        _text(item, "name", f"vhosts[{index}]")


def _exchange(item: Object, place: str) -> Exchange:
    return Exchange(
        _text(item, "name", place),
        _text(item, "type", place),
        _flag(item, "durable", place, default=True),
        _flag(item, "auto_delete", place),
        _flag(item, "internal", place),
        _arguments(item, place),
    )


def _queue(item: Object, place: str) -> Queue:
    durable = _flag(item, "durable", place, default=True)
    return Queue(_text(item, "name", place), durable, _flag(item, "auto_delete", place), _arguments(item, place))


def _policy(item: Object, place: str) -> Policy:
    definition, priority = item.get("definition"), item.get("priority", 0)
    _require(isinstance(definition, dict), f"{place}.definition", definition, "not an object")
    number = isinstance(priority, (int, float)) and not isinstance(priority, bool)
    _require(number, f"{place}.priority", priority, "not a number")
    apply_to = _text({"apply-to": "all", **item}, "apply-to", place)
    return Policy(_text(item, "name", place), _text(item, "pattern", place), dict(definition or {}), apply_to, priority)


def _binding(item: Object, place: str) -> Binding:
    kind = _text(item, "destination_type", place)
    _require(kind in DESTINATIONS, f"{place}.destination_type", kind, 'neither "queue" nor "exchange"')
    destination = Destination(DESTINATIONS[kind], _text(item, "destination", place))
    return Binding(
        _text(item, "source", place), destination, _text(item, "routing_key", place), _arguments(item, place)
    )


SECTIONS: Final[Mapping[str, Callable[[Object, str], Part]]] = {
    "exchanges": _exchange,
    "queues": _queue,
    "policies": _policy,
    "bindings": _binding,
}
"""The sections that make topologies -> what reads an object of theirs; all others are kept as they are."""


def _text(item: Object, key: str, place: str) -> str:
    if key not in item:
        raise InputError(f'{place}: it has no "{key}"')
    _require(isinstance(item[key], str), f"{place}.{key}", item[key], "not a string")
    return str(item[key])


def _flag(item: Object, key: str, place: str, *, default: bool = False) -> bool:
    value = item.get(key, default)
    _require(isinstance(value, bool), f"{place}.{key}", value, "not true or false")
    return bool(value)


def _arguments(item: Object, place: str) -> FieldTable:
    arguments = item.get("arguments")
    if arguments is None or arguments in ({}, []):  # RabbitMQ reads an empty array as no arguments, too
        return EMPTY
    return FieldTable(decode_table(arguments, f"{place}.arguments"))


def _require(fits: bool, place: str, value: Any, wrong: str) -> None:
    if not fits:
        text = json.dumps(_expanded(value))
        raise InputError(f"{place}: {text if len(text) <= 60 else text[:57] + '...'} is {wrong}")


def _exchange_object(part: Exchange) -> Object:
    flags = {"durable": part.durable, "auto_delete": part.auto_delete, "internal": part.internal}
    return {"name": part.name, "type": part.type, **flags, "arguments": encode_table(part.arguments)}


def _queue_object(part: Queue) -> Object:
    flags = {"durable": part.durable, "auto_delete": part.auto_delete}
    return {"name": part.name, **flags, "arguments": encode_table(part.arguments)}


def _policy_object(part: Policy) -> Object:
    what = {"pattern": part.pattern, "apply-to": part.apply_to, "priority": part.priority}
    return {"name": part.name, **what, "definition": dict(part.definition)}


def _binding_object(part: Binding) -> Object:
    kind, name = part.destination
    arguments = encode_table(part.arguments) if part.arguments else {}
    ends = {"source": part.source, "destination": name, "destination_type": kind}
    return {**ends, "routing_key": part.routing_key, "arguments": arguments}


WRITERS: Final[Mapping[type[Any], Callable[[Any], Object]]] = {
    Exchange: _exchange_object,
    Queue: _queue_object,
    Policy: _policy_object,
    Binding: _binding_object,
}
"""A part -> its fields as RabbitMQ names them, but for the virtual host."""

BINDING_KEYS: Final = {"vhost", *_binding_object(Binding("", Destination("queue", "")))}


def _with_vhost(vhost: str | None, written: Object) -> Object:
    return written if vhost is None else {"vhost": vhost, **written}


def _change(before: Part, after: Part) -> Object:
    """The fields that differ, as they are to be written."""
    if before is after:
        return {}
    old, new = WRITERS[type(before)](before), WRITERS[type(after)](after)
    return {key: value for key, value in new.items() if not _same(old[key], value)}


def _rewritten(entry: _Entry, after: Part, change: Object) -> Object:
    written = {**entry.object(), **change}
    # RabbitMQ exports a queue's type beside the argument that decides it.
    if isinstance(after, Queue) and "type" in written and entry.part.type != after.type:
        written["type"] = after.type
    return written


def _written(section: Iterable[Any]) -> Iterator[Any]:
    return (item.object() if isinstance(item, _Entry) else item for item in section)


def _same(one: Any, another: Any) -> bool:
    """Equal as JSON, where 1, 1.0 and true differ."""
    return ENCODE_SORTED(one) == ENCODE_SORTED(another)


def _same_section(one: Any, another: Any) -> bool:
    if isinstance(one, list) and isinstance(another, list):
        return len(one) == len(another) and all(map(_same, _written(one), _written(another)))
    return _same(one, another)


def _joined(separator: str, texts: Iterable[str]) -> Iterator[str]:
    before = ""
    for text in texts:
        yield before + text
        before = separator


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


ENCODE: Final = json.JSONEncoder(check_circular=False).encode
ENCODE_SORTED: Final = json.JSONEncoder(check_circular=False, sort_keys=True).encode

AGAIN: Final = {
    "exchanges": "the first counts",
    "queues": "the first counts",
    "policies": "the last counts",
    "bindings": "it counts once",
}


def _named(part: Part) -> str:
    if isinstance(part, Binding):
        return f"the binding from {part.source!r} to {part.destination} with the key {part.routing_key!r}"
    return f"{type(part).__name__.lower()} {part.name!r}"


def _findings(entry: _Entry) -> Iterator[str]:
    """What is odd about one part; each begins where its place ends."""
    part = entry.part
    if isinstance(part, Policy):
        yield from _policy_findings(part)
        return
    if part.arguments or entry.form.written:
        yield from _argument_findings(entry.object().get("arguments", {}), ".arguments")
    if isinstance(part, Binding):
        if not part.source and part != Binding.to_queue("", part.destination.name, part.destination.name):
            yield f": {_named(part)} cannot exist in RabbitMQ and is left out"
        return
    if part.name in RESERVED and isinstance(part, Exchange):
        if part != RESERVED[part.name]:
            yield f": skipped by RabbitMQ's import and left out: {_named(part)} is predeclared with other attributes"
    elif part.name.startswith("amq."):
        yield f": skipped by RabbitMQ's import, as all names with amq. are; {_named(part)} counts here"
    if isinstance(part, Exchange) and part.type not in KINDS:
        yield f": {_named(part)} is of type {part.type!r}, which is unknown here: routes through it stay undecided"


def _policy_findings(policy: Policy) -> Iterator[str]:
    if policy.apply_to not in APPLY_TO:
        yield f".apply-to: {policy.apply_to!r} is unknown and applies to nothing; there are {_listed(APPLY_TO)}"
    try:
        with catch_warnings():  # of constructs that a later Python may read otherwise
            simplefilter("ignore")
            re.compile(policy.pattern)
    except re.error as error:
        yield f".pattern: {policy.pattern!r} is no regular expression for Python and applies to nothing: {error}"


def _argument_findings(value: Any, place: str, *, table: bool = True) -> Iterator[str]:
    if value is None:
        yield f"{place} is null, which RabbitMQ's import refuses (null_not_allowed); it is a void here"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _argument_findings(item, f"{place}[{index}]", table=False)
    elif isinstance(value, dict):
        if not table and len(value) == 1 and next(iter(value)).startswith("!"):
            yield f"{place} is {ENCODE(value)}: a typed value here, a table for RabbitMQ's import"
            return
        for key, item in value.items():
            yield from _argument_findings(item, f"{place}.{key}", table=False)
