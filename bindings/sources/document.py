"""The content of a ``.bindings`` file: a topology and expectations for each virtual host, and a profile.

Definitions and documents are converted into each other: `Document.of_definitions` and `Document.definitions`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.hosts import explain_no_vhost, join_names
from bindings.sources.definitions.import_warnings import SourceWarning, find_part_warnings
from bindings.sources.files import decode_text, read_content, save_lines
from bindings.sources.language.expectations import Expectation
from bindings.sources.section import Section, identify_part
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.entities.profile import Profile
from exchange.errors import InputError
from exchange.topology.topology import Topology
from exchange.values.field_values import FieldTable


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """Virtual hosts with topologies and expectations, and a profile; immutable. Equal if all of these are equal.

    >>> document = Document.loads("exchange orders: topic")
    >>> print(document.definitions().topology().exchanges["orders"].type)
    topic
    """

    sections: Mapping[str, Section]
    """Virtual host -> its section; at least one."""
    profile: Profile | None = None
    """The profile that the file names."""
    name: str = "bindings"
    """The name in errors and warnings."""
    _again: tuple[tuple[int, str], ...] = field(default=(), repr=False)
    """Bindings that are there twice: the line, and a text about it."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Document:
        """Read a file, gzipped or not. Raises LanguageError, an InputError, which names the file and the position."""
        name = os.fspath(path)
        return cls.loads(decode_text(read_content(name), name), name)

    @classmethod
    def loads(cls, text: str, name: str = "bindings") -> Document:
        """Read a text; errors call it ``name``. Raises LanguageError, which names the position in it."""
        from bindings.sources.document_reader import read  # routing does not need the language

        content = read(text, name)
        return cls(content.sections, content.profile, name, content.again)

    @classmethod
    def of_definitions(cls, definitions: Definitions, name: str = "definitions") -> Document:
        """Return a document with their topologies, expectations and profile, without users, permissions and the like.

        Exchanges, queues, bindings and their arguments are sorted, since a broker exports them in any order, and parts
        that did not change should not differ between two exports. Policies keep their order, which decides between
        policies of equal priority.
        """
        sections = {
            vhost: Section(_sort(definitions.topology(vhost)), definitions.expectations(vhost))
            for vhost in definitions.vhosts
        }
        return cls(sections, definitions.profile, name)

    def definitions(self, base: Definitions | None = None) -> Definitions:
        """Return definitions with the same content.

        With a ``base``, everything else in it stays: users, permissions, parameters, and the virtual hosts that the
        document does not have.
        """
        result = Definitions().with_vhosts(self.vhosts) if base is None else base
        result = result.with_topologies([section.topology for section in self.sections.values()])
        result = result.with_all_expectations({vhost: each.expectations for vhost, each in self.sections.items()})
        result = result.with_profile(self.profile) if self.profile is not None else result
        return result.as_topology() if base is None else result

    def with_profile(self, profile: Profile) -> Document:
        """Return the document with another profile."""
        sections = {
            vhost: section._replace(topology=section.topology.with_profile(profile))
            for vhost, section in self.sections.items()
        }
        return replace(self, sections=sections, profile=profile)

    def only(self, vhost: str) -> Document:
        """Return the document with one of its virtual hosts alone."""
        return replace(self, sections={vhost: self.sections[vhost]})

    @property
    def vhosts(self) -> tuple[str, ...]:
        """The virtual hosts, in the order in which they first appear."""
        return tuple(self.sections)

    def topology(self, vhost: str | None = None, profile: Profile | str | None = None) -> Topology:
        """Return the topology of a virtual host, under ``profile``, else the file's profile, else the newest.

        Without ``vhost``, it is that of the only virtual host, else of "/". Raises InputError if there is no such
        virtual host, or several to choose from.
        """
        topology = self.section(vhost).topology
        return topology if profile is None else topology.with_profile(profile)

    def expectations(self, vhost: str | None = None) -> tuple[Expectation, ...]:
        """Return the expectations of a virtual host; ``vhost`` as for `topology`."""
        return self.section(vhost).expectations

    def section(self, vhost: str | None = None) -> Section:
        """Return one virtual host; ``vhost`` as for `topology`."""
        if vhost is None:
            vhost = self.vhosts[0] if len(self.vhosts) == 1 else "/"
            if vhost not in self.sections:
                raise InputError(f"which virtual host? There are {join_names(self.vhosts)}")
        if vhost not in self.sections:
            raise InputError(explain_no_vhost(vhost, self.vhosts))
        return self.sections[vhost]

    @property
    def warnings(self) -> list[SourceWarning]:
        """What RabbitMQ would refuse or interpret differently, and what routing cannot follow; with lines, if known."""
        return list(self._warnings())

    def _warnings(self) -> Iterator[SourceWarning]:
        for again, text in self._again:
            yield SourceWarning(f"line {again}: {text}", line=again)
        for vhost, section in self.sections.items():
            topology = section.topology
            for parts in (topology.exchanges, topology.queues, topology.policies, topology.operator_policies):
                for part in parts.values():
                    if identify_part(part) in section.lines:
                        line = section.line_of(part)
                        for code, text in find_part_warnings(part):
                            yield SourceWarning(f"line {line}{text}", code, line, vhost, part)

    def dump(self) -> str:
        """Return the text; reading it gives an equal document."""
        return "".join(self._text())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, gzipped if its name ends with ".gz"; an old file stays until the new one is complete.

        Raises InputError when it cannot be written.
        """
        save_lines(os.fspath(path), self._text())

    def _text(self) -> Iterator[str]:
        from bindings.sources.document_writer import write  # routing does not need the language

        return write(self.sections, self.profile)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        mine, theirs = (
            {vhost: section[:2] for vhost, section in document.sections.items()} for document in (self, other)
        )
        return (self.profile, mine) == (other.profile, theirs)

    __hash__ = None  # type: ignore[assignment]


def _sort(topology: Topology) -> Topology:
    """Return the topology sorted, except for its policies: see `Document.of_definitions`."""

    def sort_key(binding: Binding) -> tuple[Any, ...]:
        return binding.source, binding.destination, binding.routing_key, repr(binding.arguments.identity)

    bindings = [
        binding._replace(arguments=_sort_table(binding.arguments)) if binding.arguments else binding
        for binding in topology.bindings
    ]
    return topology.with_parts(
        exchanges=[_sort_arguments_of(part) for _, part in sorted(topology.exchanges.items())],
        queues=[_sort_arguments_of(part) for _, part in sorted(topology.queues.items())],
        bindings=sorted(bindings, key=sort_key),
    )


Declared = TypeVar("Declared", Exchange, Queue)


def _sort_arguments_of(part: Declared) -> Declared:
    return replace(part, arguments=_sort_table(part.arguments)) if part.arguments else part


def _sort_table(arguments: Mapping[str, Any]) -> FieldTable:
    return FieldTable(dict(sorted(arguments.items())))
