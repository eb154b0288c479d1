"""The entries of definitions by virtual host: which of these there are, and their edit to the parts of topologies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from bindings.sources.definitions.entries import SECTIONS, Entry, Object
from exchange.entities.entities import OWN_NAMES, Binding
from exchange.entities.part import Part
from exchange.errors import InputError
from exchange.text.display import find_alike
from exchange.topology.topology import Topology

Value = TypeVar("Value")


class EntriesByVhost:
    """The entries of a document, which never changes, so what is derived of it is kept."""

    __slots__ = ("_derived", "default", "document")

    def __init__(self, document: Mapping[str, Any], default: str) -> None:
        self.document: Final = document
        self.default: Final = default
        """The virtual host of entries without the field "vhost"."""
        self._derived: dict[str, Any] = {}

    def keep(self, name: str, derive: Callable[[], Value]) -> Value:
        """Return what is derived of the document, which is done once: there may be as many virtual hosts as entries."""
        if name not in self._derived:
            self._derived[name] = derive()
        value: Value = self._derived[name]
        return value

    @property
    def known(self) -> dict[str, None]:
        """The virtual hosts under "vhosts", then others that entries name; the default one if there are none."""

        def derive() -> dict[str, None]:
            listed = (vhost["name"] for vhost in self.document.get("vhosts", ()))
            return dict.fromkeys([*listed, *self._used()]) or {self.default: None}

        return self.keep("vhosts", derive)

    def sections(self) -> dict[str, list[Entry]]:
        """Return the sections of exchanges, queues, bindings and policies that the document has."""
        return {key: self.document[key] for key in SECTIONS if key in self.document}

    def fields(self) -> dict[str | None, None]:
        """Return the values of the field "vhost" of all entries, in order; None for entries without it."""
        return self.keep(
            "fields", lambda: {entry.vhost: None for entries in self.sections().values() for entry in entries}
        )

    def _used(self) -> dict[str, None]:
        """Return the virtual hosts of all entries, in order."""
        return {self.default if vhost is None else vhost: None for vhost in self.fields()}

    def choose(self) -> str:
        """Return the only virtual host with entries, else "/", else the only one. Raises InputError for several."""
        used, vhosts = self._used(), tuple(self.known)
        if len(used) == 1:
            return next(iter(used))
        if "/" in vhosts:
            return "/"
        if len(vhosts) == 1:
            return vhosts[0]
        raise InputError(f"which virtual host? There are {join_names(vhosts)}")

    def fields_of(self, vhost: str) -> set[str | None]:
        """Return the values that the field "vhost" has in entries of the virtual host; None stands for no field."""
        return {vhost, None} if vhost == self.default else {vhost}

    def host_of(self, entry: Entry) -> str:
        """Return the virtual host of an entry."""
        return self.default if entry.vhost is None else entry.vhost

    def list_entries(self, key: str, vhost: str) -> list[Entry]:
        """Return the entries of a section in a virtual host."""

        def derive() -> dict[str, list[Entry]]:
            entries, used = self.document.get(key, []), self._used()
            if len(used) == 1:
                return dict.fromkeys(used, entries)
            by_vhost: dict[str, list[Entry]] = {}
            for entry in entries:
                by_vhost.setdefault(self.host_of(entry), []).append(entry)
            return by_vhost

        return self.keep(f"section {key}", derive).get(vhost, [])

    def by_name(self, key: str, vhost: str) -> dict[str, Any]:
        """Return name -> the part in force, where several have one name."""
        parts: dict[str, Any] = {}
        for entry in self.list_entries(key, vhost):
            if key == "policies" or entry.part.name not in parts:
                parts[entry.part.name] = entry.part
        return parts

    def is_of_one(self) -> bool:
        """Return whether this is an export of one virtual host, in which entries have no field "vhost"."""
        if "vhosts" in self.document:
            return False
        return "original_vhost_name" in self.document or self.fields() == {None: None}

    def edit(self, key: str, wanted: Mapping[str, Topology], fields: Mapping[str, str | None]) -> list[Entry]:
        """Return the entries of a section with the parts of topologies; ``fields`` have the vhost of new entries."""
        before = {vhost: self.by_name(key, vhost) for vhost in wanted}
        after: dict[str, Mapping[str, Part]] = {vhost: getattr(topology, key) for vhost, topology in wanted.items()}
        skipped = OWN_NAMES if key == "exchanges" else ()
        entries = []
        for entry in self.document.get(key, ()):
            name, vhost = entry.part.name, self.host_of(entry)
            parts = after.get(vhost)
            if parts is None or name in skipped:
                entries.append(entry)
            elif name in parts:  # of several with one name, only the one in force changes
                entries.append(entry.with_part(parts[name]) if entry.part is before[vhost][name] else entry)
        new = (
            Entry.new(part, fields[vhost])
            for vhost, parts in after.items()
            for name, part in parts.items()
            if name not in before[vhost] and name not in skipped
        )
        return [*entries, *new]

    def edit_bindings(self, wanted: Mapping[str, Topology], fields: Mapping[str, str | None]) -> list[Entry]:
        """Return the entries of the bindings as `edit` does; those of the default exchange stay with their queue."""
        entries: list[Entry] = []
        there: dict[str, set[Binding]] = {vhost: set() for vhost in wanted}
        for entry in self.document.get("bindings", ()):
            part, vhost = entry.part, self.host_of(entry)
            topology = wanted.get(vhost)
            if topology is None:
                entries.append(entry)
            elif part in topology.bindings if part.source else part.destination.name in topology.queues:
                entries.append(entry)
                there[vhost].add(part)
        new = (
            Entry.new(part, fields[vhost])
            for vhost, topology in wanted.items()
            for part in topology.bindings
            if part.source and part not in there[vhost]
        )
        return [*entries, *new]


def find_named_vhost(document: Object) -> str | None:
    """Return the virtual host that some entries name and others do not, of an export that lists no virtual hosts."""
    names: set[str | None] = {entry.vhost for key in SECTIONS for entry in document.get(key, ())}
    if "vhosts" in document or None not in names or len(names) != 2:
        return None
    return next(name for name in names if name is not None)


def join_names(names: Iterable[str]) -> str:
    """Return names of virtual hosts for an error."""
    return ", ".join(map(repr, names))


def explain_no_vhost(vhost: str, vhosts: Iterable[str]) -> str:
    """Return the error about a virtual host that is none of these: which one may be meant, and all there are."""
    names = [*vhosts]
    alike = find_alike(vhost, names)
    meant = "" if alike is None else f" (did you mean {alike!r}?)"
    return f"there is no virtual host {vhost!r}{meant}; there are {join_names(names)}"
