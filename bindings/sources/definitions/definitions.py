"""RabbitMQ's definitions.json as a value: topologies to route with, and everything else kept unchanged.

Invariant: ``loads(text).dump()`` is the same JSON as ``text``, the order of lists and keys included; a key that occurs
twice in one object is an error. An edit rewrites only what it changes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bindings.sources.definitions.entries import ENCODE, SECTIONS, Entry, Object, expand, is_same_json, read_section
from bindings.sources.definitions.extensions import KEY, Additions
from bindings.sources.definitions.hosts import EntriesByVhost, explain_no_vhost, find_named_vhost, join_names
from bindings.sources.definitions.import_fields import DEFAULT_TYPE
from bindings.sources.definitions.import_warnings import (
    SourceWarning,
    find_argument_warnings,
    find_boot_warnings,
    find_default_type_warnings,
    find_definitions_warnings,
    find_refusal_warnings,
    find_section_warnings,
    find_unknown_sections,
    find_unread,
)
from bindings.sources.definitions.operator_policies import (
    COMPONENT,
    read_operator_policies,
    remove_operator_policies,
    write_operator_policies,
)
from bindings.sources.definitions.text import parse_text, write_text
from bindings.sources.files import decode_text, read_content, save_lines
from bindings.sources.language.expectations import Expectation
from exchange.entities.entities import OWN_NAMES, PREDECLARED_NAMES, Policy, Queue
from exchange.entities.predeclared import LOG_EXCHANGE
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE, find_closest_profile, find_profile_by_name
from exchange.entities.unread import UnreadPart
from exchange.errors import InputError
from exchange.text.display import clip_line
from exchange.topology.topology import Topology


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Definitions:
    """The definitions of a broker or of one virtual host; immutable. ``Definitions()`` is empty.

    Exports of one virtual host leave the field "vhost" out. An entry without it is in ``default_vhost``: the one given
    when loading, else the export's own "original_vhost_name", else the one that its policies name (RabbitMQ 3.10 has no
    other trace of it), else "/"; this choice is not written back. Two
    definitions are equal if they are the same JSON, with lists in the same order, and have the same ``default_vhost``.

    >>> definitions = Definitions.load("examples/demo/definitions.json")
    >>> definitions.vhosts, definitions.rabbitmq_version
    (('/',), '4.1.4')
    >>> len(definitions.topology("/").bindings)
    33
    """

    default_vhost: str = "/"
    _document: Mapping[str, Any] = field(default_factory=dict)
    """The file, with entries in the sections of SECTIONS."""
    _hosts: EntriesByVhost = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hosts", EntriesByVhost(self._document, self.default_vhost))

    @classmethod
    def load(cls, path: str | os.PathLike[str], vhost: str | None = None) -> Definitions:
        """Read a file, gzipped or not. Raises InputError, which names the file and the position in it."""
        name = os.fspath(path)
        return cls._from_document(parse_text(decode_text(read_content(name), name), name), name, vhost)

    @classmethod
    def loads(cls, text: str | bytes, name: str = "definitions", vhost: str | None = None) -> Definitions:
        """Read a text; errors call it ``name``. Raises InputError, which names the position in it."""
        return cls._from_document(
            parse_text(decode_text(text, name) if isinstance(text, bytes) else text, name), name, vhost
        )

    @classmethod
    def _from_document(cls, document: Object, name: str, vhost: str | None) -> Definitions:
        try:
            for key, section in document.items():
                document[key] = read_section(key, section)
            Additions.read(document.get(KEY))
            list(read_operator_policies(document, with_idle=True))  # raises the error of the first one that is wrong
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        except RecursionError:
            raise InputError(f"{name}: nested too deeply") from None
        if vhost is None:
            vhost = document.get("original_vhost_name", find_named_vhost(document))
        return cls(vhost if isinstance(vhost, str) else "/", document)

    @property
    def rabbitmq_version(self) -> str | None:
        """The RabbitMQ version of the export, if it names one; `find_closest_profile` takes it."""
        version = self._document.get("rabbitmq_version", self._document.get("rabbit_version"))
        return version if isinstance(version, str) else None

    @property
    def unusable_version(self) -> str | None:
        """Why the version of the export selects no profile, and which one applies instead; None if it selects one."""
        given = [key for key in ("rabbitmq_version", "rabbit_version") if key in self._document]
        if not given or self.names_profile or find_profile_by_name(self.rabbitmq_version or "") is not None:
            return None
        version = clip_line(ENCODE(self._document[given[0]]), 60)
        wrong = "is no release of RabbitMQ" if self.profile is None else "is older than the oldest profile"
        profile = self.profile or LATEST_PROFILE
        return f"{given[0]}: {version} {wrong}; without --profile, the rules of {profile.name} hold"

    @property
    def names_profile(self) -> bool:
        """Whether the key "hashstar" names a profile; it takes precedence over the version of the export."""
        return self._additions.profile is not None

    @property
    def profile(self) -> Profile | None:
        """The profile under the key "hashstar", from a ``.bindings`` file; else that of the exporting release."""
        return self._additions.profile or find_closest_profile(self.rabbitmq_version or "")

    @property
    def is_topology(self) -> bool:
        """Whether it has a section of exchanges, queues, bindings or policies, be it empty."""
        return bool({*SECTIONS, "operator_policies", KEY} & self._document.keys()) or bool(self.operator_policies)

    def as_topology(self) -> Definitions:
        """Return them with empty sections, as a broker exports them, if they have none: else no reader takes them."""
        empty: dict[str, Any] = {key: [] for key in SECTIONS}
        return self if self.is_topology else Definitions(self.default_vhost, {**self._document, **empty})

    @property
    def others(self) -> dict[str, int]:
        """Section -> number of entries, for what is no part of a topology, such as users; and for operator policies."""
        settings = [{**vhost, "name": None} for vhost in self._document.get("vhosts", ())]
        counts = {
            **{key: len(value) for key, value in self._document.items() if isinstance(value, list)},
            "operator_policies": len(self.operator_policies),
            "parameters": sum(item.get("component") != COMPONENT for item in self.other_entries("parameters")),
            "virtual hosts with settings": sum(any(fields.values()) for fields in settings),
        }
        return {key: count for key, count in counts.items() if count and key not in {*SECTIONS, "vhosts", KEY}}

    @property
    def default_queue_types(self) -> dict[str, str]:
        """Virtual host -> the type of queues that are declared there without x-queue-type, where one is named.

        An export of one virtual host names that of its own.
        """
        hosts = [(vhost["name"], vhost) for vhost in self._document.get("vhosts", ())]
        found: dict[str, str] = {}
        for name, fields in hosts or [(self.default_vhost, self._document)]:
            metadata = fields.get("metadata")
            given = fields.get(DEFAULT_TYPE) or (metadata if isinstance(metadata, dict) else {}).get(DEFAULT_TYPE)
            if isinstance(given, str):
                found[name] = given
        return found

    def other_entries(self, section: str) -> list[Object]:
        """Return the objects of a section that is no part of a topology, such as "operator_policies"."""
        entries = self._document.get(section)
        return [item for item in entries if isinstance(item, dict)] if isinstance(entries, list) else []

    def with_other_entries(self, section: str, entries: Iterable[Object]) -> Definitions:
        """Return definitions with these objects in a section that is no part of a topology; one that is there."""
        if section not in self._document:
            return self
        return Definitions(self.default_vhost, {**self._document, section: [*entries]})

    def without_operator_policies(self, vhost: str, names: Collection[str]) -> Definitions:
        """Return definitions without the operator policies of these names in a virtual host."""
        if not names:
            return self
        changed = remove_operator_policies(self._document, names, self._hosts.fields_of(vhost))
        return Definitions(self.default_vhost, {**self._document, **changed})

    def only(self, vhost: str) -> Definitions:
        """Return the definitions without the entries of other virtual hosts. Raises InputError if there is none."""
        self.topology(vhost)

        def belongs(item: Any) -> bool:
            if isinstance(item, Entry):
                return item.vhost in self._hosts.fields_of(vhost)
            return not isinstance(item, dict) or item.get("vhost", vhost) == vhost

        document = {
            key: [item for item in section if belongs(item)] if isinstance(section, list) else section
            for key, section in self._document.items()
        }
        if "vhosts" in document:
            document["vhosts"] = [item for item in document["vhosts"] if item["name"] == vhost]
        return Definitions(self.default_vhost, document)

    @property
    def vhosts(self) -> tuple[str, ...]:
        """The virtual hosts under "vhosts", then others that entries name; ``default_vhost`` if there are none."""
        return tuple(self._hosts.known)

    def topology(self, vhost: str | None = None, profile: Profile | str | None = None) -> Topology:
        """Return the topology of a virtual host, under ``profile``, else the definitions' `profile`, else the newest.

        Without ``vhost``, it is that of the only virtual host with entries, else of "/", else of the only one. As in
        RabbitMQ's import, the default exchange, its bindings and attributes that contradict those of a predeclared
        exchange are left out, and an unbound exchange of a node's log; of several exchanges or queues with one name the
        first counts, of policies the last. Raises InputError if there is no such virtual host, or several.
        """
        vhost = self._hosts.choose() if vhost is None else vhost
        if vhost not in self._hosts.known:
            raise InputError(explain_no_vhost(vhost, self.vhosts))
        bindings = [entry.part for entry in self._hosts.list_entries("bindings", vhost) if entry.part.source]
        exchanges = self._hosts.by_name("exchanges", vhost)
        is_log_bound = LOG_EXCHANGE in exchanges and any(
            LOG_EXCHANGE in (each.source, each.destination.name) for each in bindings
        )
        left_out = PREDECLARED_NAMES if is_log_bound else OWN_NAMES
        return Topology(
            [part for name, part in exchanges.items() if name not in left_out],
            self._with_partitionings_of(vhost, self._hosts.by_name("queues", vhost)),
            bindings,
            [*self._hosts.by_name("policies", vhost).values(), *self._operator_policies_of(vhost)],
            vhost=vhost,
            profile=(self.profile or LATEST_PROFILE) if profile is None else profile,
        )

    @property
    def operator_policies(self) -> list[tuple[str, Policy]]:
        """Virtual host and policy of each operator policy, in the order of the file."""
        return [
            (self.default_vhost if vhost is None else vhost, policy)
            for vhost, policy in read_operator_policies(self._document)
        ]

    def _operator_policies_of(self, vhost: str) -> list[Policy]:
        def derive() -> dict[str, list[Policy]]:
            by_vhost: dict[str, list[Policy]] = {}
            for name, policy in self.operator_policies:
                by_vhost.setdefault(name, []).append(policy)
            return by_vhost

        return self._hosts.keep("operator policies", derive).get(vhost, [])

    def expectations(self, vhost: str | None = None) -> tuple[Expectation, ...]:
        """Return the expectations that a ``.bindings`` file had of a virtual host; ``vhost`` as for `topology`."""
        return self._additions.expectations.get(self._hosts.choose() if vhost is None else vhost, ())

    def with_expectations(self, vhost: str, expectations: Iterable[Expectation]) -> Definitions:
        """Return definitions with these expectations of a virtual host in place of those that it had."""
        return self.with_all_expectations({vhost: tuple(expectations)})

    def with_all_expectations(self, expectations: Mapping[str, tuple[Expectation, ...]]) -> Definitions:
        """Return definitions with these expectations of some virtual hosts in place of those that they had."""
        return self._with_additions(self._additions.with_expectations(expectations))

    def with_profile(self, profile: Profile) -> Definitions:
        """Return the definitions under this profile; it is written only if their release has another profile."""
        if profile == self.profile:
            return self
        return self._with_additions(replace(self._additions, profile=profile))

    def with_vhosts(self, names: Iterable[str]) -> Definitions:
        """Return definitions that also list these virtual hosts."""
        vhosts = self._document.get("vhosts", [])
        known = {vhost["name"] for vhost in vhosts}
        new = [{"name": name} for name in dict.fromkeys(names) if name not in known]
        return Definitions(self.default_vhost, {**self._document, "vhosts": [*vhosts, *new]}) if new else self

    def with_topology(self, topology: Topology) -> Definitions:
        """Return definitions with the exchanges, queues, bindings and policies of a topology in its virtual host.

        Unchanged entries stay as they are written and where they stand; changed ones keep their other fields; new ones
        come last. Predeclared exchanges and bindings from the default exchange are not written, but stay if they are
        there (those bindings as long as their queue); so do operator policies that the topology does not have. The
        virtual host is listed if nothing else would name it.
        """
        return self.with_topologies([topology])

    def with_topologies(self, topologies: Iterable[Topology]) -> Definitions:
        """Return definitions with several topologies in their virtual hosts, as `with_topology` does for one.

        Each section is walked once for all of them.
        """
        wanted = {topology.vhost: topology for topology in topologies}
        if not wanted:
            return self
        of_one = self._hosts.is_of_one()
        fields = {vhost: None if of_one and vhost == self.default_vhost else vhost for vhost in wanted}
        edited = {key: self._hosts.edit(key, wanted, fields) for key in ("exchanges", "queues", "policies")}
        edited["bindings"] = self._hosts.edit_bindings(wanted, fields)
        document = {**self._document, **{key: edited[key] for key in edited if edited[key] or key in self._document}}
        for vhost, topology in wanted.items():
            if topology.operator_policies:
                ours = {policy.name: policy for policy in self._operator_policies_of(vhost)}
                new = {name: policy for name, policy in topology.operator_policies.items() if ours.get(name) != policy}
                if new:
                    document.update(write_operator_policies(document, new, self._hosts.fields_of(vhost), fields[vhost]))
        after = Definitions(self.default_vhost, document)
        named = after._hosts.known
        after = after.with_vhosts([vhost for vhost in wanted if not (vhost in self._hosts.known and vhost in named)])
        partitioned = {
            vhost: {queue.name: queue.partitioning for queue in topology.queues.values() if queue.partitioning}
            for vhost, topology in wanted.items()
        }
        return after._with_additions(self._additions.with_partitionings(partitioned))

    @property
    def warnings(self) -> list[SourceWarning]:
        """What RabbitMQ's import would skip, refuse or interpret differently, and what routing cannot follow.

        Each warning names its position. There are warnings about exchanges of unknown type, null and typed arguments,
        policies that apply to nothing, names that RabbitMQ reserves, parts that occur twice, virtual hosts that are not
        declared, a version without a profile, and sections that are no arrays of objects. Computed at each access.
        """
        version = self.unusable_version
        return [
            *([] if version is None else [SourceWarning(version)]),
            *self._import_warnings(self.profile or LATEST_PROFILE),
        ]

    def warnings_under(self, profile: Profile) -> list[SourceWarning]:
        """Return `warnings`, as the import of this release has them, and which ways of importing refuse the file."""
        version = self.unusable_version
        return [
            *([] if version is None else [SourceWarning(version)]),
            *find_boot_warnings(self._document, of_one_vhost=self._exported_vhost),
            *self._import_warnings(profile),
        ]

    def _import_warnings(self, profile: Profile) -> Iterator[SourceWarning]:
        yield from find_section_warnings(self._document)
        yield from find_refusal_warnings(self._document, profile, of_one_vhost=self._exported_vhost)
        yield from find_default_type_warnings(self._document, profile)
        yield from find_definitions_warnings(self._hosts.sections(), self.default_vhost)

    @property
    def _exported_vhost(self) -> str | None:
        """The virtual host of an export of one, whose entries do not name it; None for other files."""
        is_one = "original_vhost_name" in self._document or None in self._hosts.fields()
        return self.default_vhost if is_one and "vhosts" not in self._document else None

    @property
    def unread(self) -> tuple[UnreadPart, ...]:
        """The sections that are not known, and so not read."""
        return find_unread(find_unknown_sections(self._document))

    @property
    def not_imported(self) -> list[SourceWarning]:
        """The arguments that RabbitMQ's import refuses or reads as another type: nulls, and types that JSON lacks."""
        return list(find_argument_warnings(self._hosts.sections()))

    def dump(self) -> str:
        """Return the JSON text: every exchange, queue, binding ... on its own line, so that versions compare well."""
        return "".join(write_text(self._document))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, gzipped if its name ends with ".gz"; an old file stays until the new one is complete.

        Raises InputError when it cannot be written.
        """
        save_lines(os.fspath(path), write_text(self._document))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Definitions):
            return NotImplemented
        mine, theirs = self._document, other._document
        if (self.default_vhost, mine.keys()) != (other.default_vhost, theirs.keys()):
            return False
        return all(_same_section(mine[key], theirs[key]) for key in mine)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = (f"{len(entries)} {key}" for key, entries in self._hosts.sections().items())
        return f"<Definitions of {join_names(self.vhosts)}: {', '.join(counts) or 'nothing'}>"

    @property
    def _additions(self) -> Additions:
        return self._hosts.keep(KEY, lambda: Additions.read(self._document.get(KEY)))

    def _with_additions(self, additions: Additions) -> Definitions:
        if additions == self._additions:
            return self
        rest = {key: value for key, value in self._document.items() if key != KEY}
        value = additions.to_json()
        return Definitions(self.default_vhost, {**self._document, KEY: value} if value else rest)

    def _with_partitionings_of(self, vhost: str, queues: Mapping[str, Queue]) -> Iterable[Queue]:
        partitionings = self._additions.partitionings.get(vhost)
        if not partitionings:
            return queues.values()
        return [
            replace(queue, partitioning=partitionings[name]) if name in partitionings else queue
            for name, queue in queues.items()
        ]


def load_topology(
    path: str | os.PathLike[str], vhost: str | None = None, profile: Profile | str | None = None
) -> Topology:
    """Return the topology of a definitions file; ``vhost`` and ``profile`` as in `Definitions.topology`.

    ``vhost`` also names the virtual host of an export that does not name it. Raises InputError, which names the file.
    """
    definitions = Definitions.load(path, vhost)
    try:
        return definitions.topology(vhost, profile)
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from None


def _same_section(one: Any, another: Any) -> bool:
    if isinstance(one, list) and isinstance(another, list):
        return len(one) == len(another) and all(map(is_same_json, map(expand, one), map(expand, another)))
    return is_same_json(one, another)
