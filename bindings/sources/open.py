"""Open a source of topologies: a file or folder of any format, standard input or a live broker.

The content of a file decides what it is; its name only where the content does not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from os.path import exists, isdir
from typing import Final

from bindings.sources.applications.application import Application
from bindings.sources.applications.open import is_application, open_application
from bindings.sources.definitions import Definitions
from bindings.sources.definitions.entries import SECTIONS
from bindings.sources.definitions.import_warnings import SourceWarning, find_unread
from bindings.sources.document import Document
from bindings.sources.files import decode_text, gunzip, list_files, read_content, read_whole
from bindings.sources.formats import FORMATS, Imported, SourceFile, TopologyFormat, format_of, read_folder
from bindings.sources.glob_pattern import expand_pattern, is_pattern
from bindings.sources.language.expectations import Expectation
from bindings.sources.management import Management, build_unread_queues, is_address
from bindings.sources.section import Listing, Section
from exchange.entities.part import Part
from exchange.entities.profile import Profile
from exchange.entities.releases import find_closest_profile, resolve_profile, warn_of
from exchange.entities.unread import UnreadPart
from exchange.errors import InputError
from exchange.files.names import YAML
from exchange.kinds import KeyUse, find_kind
from exchange.limits import ANSWER_SECONDS
from exchange.text.display import clip_line, list_some, suggest
from exchange.topology.topology import Topology
from exchange.values.json_text import JsonFault, parse

STDIN: Final = "-"
ANSWER_SHOWN: Final = 80
"""Maximum number of characters of an answer, or of a key, in an error."""
MATCHES_SHOWN: Final = 3
"""Maximum number of files that an error lists of those that match a pattern."""
OBJECT: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""An object of a Python module, as ``celery -A`` takes it."""
HEAD_BYTES: Final = 1 << 16
"""Number of bytes in which JSON lines are recognised; no JSON has a line that ends with } before one with {."""
BLANK: Final = b"\xef\xbb\xbf \t\r\n"


@dataclass(frozen=True, slots=True)
class Source:
    """Topologies and expectations, with the name of their source."""

    name: str
    content: Document | Definitions
    profile: Profile | None = None
    """The profile of the source: that of a live broker's version, else the one that the file names."""
    path: str | None = None
    """The file or folder it was read from; None for standard input and brokers."""
    text: str | None = None
    """The text of a .bindings file; None for definitions and other formats."""
    format: TopologyFormat | None = None
    """The format of another system that it was read from; None for .bindings files, definitions and brokers."""
    imported: Imported | None = None
    """What was read in that format: places, warnings and what was left out."""
    application: Application | None = None
    """What was read of an application of Celery or FastStream; None for all other sources."""
    allows_unread: bool = False
    """Whether the user wants claims about the topologies although parts of the source were not read."""
    hidden: Mapping[str, UnreadPart] = field(default_factory=dict)
    """Virtual host of a live broker -> what its exports leave out there."""

    @property
    def vhosts(self) -> tuple[str, ...]:
        """The virtual hosts of the source."""
        return self.content.vhosts

    def topology(self, vhost: str | None = None, profile: Profile | str | None = None) -> Topology:
        """Return the topology of a virtual host, under ``profile``, else the source's profile, else the newest.

        Raises InputError, naming the source, when there is no such virtual host or several to choose from.
        """
        try:
            rules = self.profile if profile is None else resolve_profile(profile)
            topology = self.content.topology(vhost, rules)
        except InputError as error:
            raise InputError(f"{self.name}: {error}; choose with --vhost") from None
        unread = self._unread_in(topology.vhost)
        return topology.with_unread(unread, allowed=self.allows_unread) if unread or self.allows_unread else topology

    def routable(self, vhost: str | None = None, profile: Profile | str | None = None) -> Topology:
        """Return the same topology as `topology`, if a router can be built of it.

        Raises InputError also if a topic exchange has a binding whose key is longer than AMQP allows. No client can
        make such a binding, but the management API can, and a file can hold it.
        """
        topology = self.topology(vhost, profile)
        for exchange in topology.exchanges.values():
            kind = find_kind(exchange)
            if kind.key_use is KeyUse.PATTERN:
                for binding in topology.bindings_from(exchange.name):
                    fault = kind.fault(binding)
                    if fault is not None:
                        raise InputError(f"{self.name}: {fault}")
        return topology

    def expectations(self, vhost: str) -> tuple[Expectation, ...]:
        """Return the expectations of a virtual host."""
        return self.content.expectations(vhost)

    def line_of(self, vhost: str, part: Part) -> int | None:
        """Return the line that declares a part, from 1; None in JSON and in folders."""
        if self.imported is not None:
            return self.imported.line_of(vhost, part)
        return self.content.section(vhost).line_of(part) if isinstance(self.content, Document) else None

    def listing(self, vhost: str) -> Listing | None:
        """Return the text of a .bindings file with the lines of a virtual host; None for definitions."""
        if self.text is None or not isinstance(self.content, Document):
            return None
        return Listing(self.text, self.content.section(vhost))

    @property
    def warnings(self) -> list[SourceWarning]:
        """What RabbitMQ would refuse or interpret differently, and what routing cannot follow; with positions."""
        found = self.content.warnings if self.imported is None else self.imported.warnings
        hidden = map(SourceWarning.of_unread, self.hidden.values())
        return [*hidden, *found]

    def warnings_under(self, profile: Profile) -> list[SourceWarning]:
        """Return `warnings`, with those about what the import of this release refuses."""
        if self.imported is None and isinstance(self.content, Definitions):
            return [*map(SourceWarning.of_unread, self.hidden.values()), *self.content.warnings_under(profile)]
        return self.warnings

    @property
    def unread(self) -> tuple[UnreadPart, ...]:
        """The parts that were not read."""
        return tuple(dict.fromkeys([each for vhost in self.vhosts for each in self._unread_in(vhost)]))

    def _unread_in(self, vhost: str) -> tuple[UnreadPart, ...]:
        """Return what the topology of a virtual host carries as not read: of a file, all of it."""
        found: tuple[UnreadPart, ...] = ()
        if self.imported is not None:
            found = find_unread(self.imported.warnings)
        elif is_address(self.name):  # a broker misspells nothing
            found = (self.hidden[vhost],) if vhost in self.hidden else ()
        elif isinstance(self.content, Definitions):
            found = self.content.unread
        elif self.application is not None:
            found = self.application.unread
        return tuple(each._replace(where=f"{self.name}: {each.where}") for each in found)

    def allowing_unread(self, allowed: bool = True) -> Source:
        """Return the source, of whose topologies claims are made although parts of it were not read."""
        return replace(self, allows_unread=allowed)

    @property
    def release(self) -> str | None:
        """The release of RabbitMQ as the source names it, ``4.1.3``, else its profile; None if it names neither."""
        if isinstance(self.content, Definitions) and self.content.rabbitmq_version and not self.content.names_profile:
            return self.content.rabbitmq_version
        return None if self.profile is None else self.profile.name

    @property
    def chosen_by(self) -> str | None:
        """Why the topologies have their profile; None if the source names it, or is a broker."""
        if is_address(self.name) or (isinstance(self.content, Definitions) and self.content.names_profile):
            return None
        if self.profile is not None and self.profile.applied_to:
            return f"the newest known here, as it names {self.profile.applied_to}, which is newer"
        if isinstance(self.content, Document):
            return None if self.profile is not None else "the newest, as it names no profile"
        if self.profile is not None:
            return f"as its rabbitmq_version is {self.content.rabbitmq_version}"
        return "the newest, as it names no release of RabbitMQ"

    @property
    def document(self) -> Document:
        """The source as a document, without users, permissions and the like."""
        if isinstance(self.content, Document):
            return self.content
        document = Document.of_definitions(self.content, self.name)
        return document if self.profile is None else document.with_profile(self.profile)


def _is_json(text: str) -> bool:
    """Return whether a text that does not begin like an object or array is JSON, with or without a fault, or blank."""
    try:
        parse(text)
    except JsonFault:
        return True
    except ValueError:
        return not text.strip()
    return True


def open_source(
    where: str | PathLike[str], vhost: str | None = None, *, seconds: float = ANSWER_SECONDS, may_be_none: bool = False
) -> Source:
    """Read a source: a path, ``-``, or a live broker's ``http(s)://[USER[:PASSWORD]@]HOST[:PORT][/VHOST]``.

    A path is a .bindings file, definitions, a folder or file of a format of `bindings.sources.formats`. An application
    that is named as ``celery:PACKAGE.MODULE:APP`` or ``faststream:PACKAGE.MODULE:BROKER`` is imported, which runs its
    code; its topology is what it declares.

    ``vhost`` also names the virtual host of an export that does not name its own; of a broker, only this one is read.
    Each answer of a broker must be complete within ``seconds``. Raises InputError, which names the source (without a
    password) and the position in it; also for JSON without any part of a topology, unless that is ``may_be_none``.
    """
    if not isinstance(where, (str, PathLike)):
        raise TypeError(f"a path or an address is wanted, not {type(where).__name__}: {where!r:.60}")
    where = fspath(where)
    if is_address(where):
        broker = Management.at(where, seconds=seconds)
        definitions = broker.definitions(vhost)
        profile = find_closest_profile(definitions.rabbitmq_version or broker.version())
        hidden = {name: build_unread_queues(name, queues) for name, queues in broker.exclusive_queues(vhost).items()}
        return Source(broker.address, definitions, profile, hidden=hidden)
    if is_application(where):
        application = open_application(where, vhost)
        topology = application.declared.topology
        document = Document({topology.vhost: Section(topology)}, name=where)
        return Source(where, document, application=application)
    scheme, separator, _ = where.partition("://")
    if separator and scheme.isalpha():  # the rest is not printed: it may have a password
        raise InputError(f"{scheme}://... has no topology; a broker's management API has: http://HOST:15672[/VHOST]")
    if is_pattern(where):
        matched = expand_pattern(where)
        listed = list_some(matched, MATCHES_SHOWN)
        raise InputError(f"{where}: a pattern, and one file is wanted; it matches {listed}")
    if where != STDIN:
        if isdir(where):  # noqa: PTH112  a text with a NUL is no folder
            return _of_format(*read_folder(where, list_files(where)), where, where)
        if OBJECT.fullmatch(where) and not exists(where):  # noqa: PTH110
            raise InputError(f"{where}: no such file; an application is named celery:{where} or faststream:{where}")
        return read_source(read_content(where), where, vhost, path=where, may_be_none=may_be_none)
    name = "standard input"
    data = gunzip(read_whole(sys.stdin.buffer, name), name)
    if not data.strip():
        raise InputError(f"{name}: there is nothing")
    return read_source(data, name, vhost, may_be_none=may_be_none)


def read_source(
    data: bytes, name: str, vhost: str | None = None, *, path: str | None = None, may_be_none: bool = False
) -> Source:
    """Read the content of a file, not gzipped; its content decides what it is, and errors call it ``name``.

    ``vhost`` also names the virtual host of an export that does not name its own. Raises InputError, which names the
    position; also for JSON without any part of a topology, unless that is ``may_be_none``.
    """
    if data.startswith(b"PAR1"):
        raise InputError(f"{name}: this is Parquet: an archive, and no topology. The topology comes before archives")
    text = decode_text(data, name)
    file = SourceFile(name, text)
    known = format_of(file)
    if known is not None:
        return _of_format(known, known.read([file], name), name, path)
    if b"}\n{" in data[:HEAD_BYTES]:  # and no recording, whose lines have a topology
        raise InputError(f"{name}: these are JSON lines: messages or an archive, and no topology")
    if name.removesuffix(".gz").endswith(YAML):
        wanted = " nor ".join([each.in_yaml for each in FORMATS.values() if each.in_yaml is not None])
        raise InputError(f"{name}: neither {wanted}")
    is_named_json = name.endswith((".json", ".json.gz"))
    if is_named_json and data.lstrip(BLANK).startswith((b"//", b"/*")):
        line = text[: text.index("/")].count("\n") + 1
        raise InputError(f"{name}:{line}:1: JSON has no comments: remove what begins with // or /*")
    if data.lstrip(BLANK)[:1] in (b"{", b"[") or (is_named_json and _is_json(text)):
        definitions = Definitions.loads(text, name, vhost)
        if not (definitions.is_topology or may_be_none):
            raise InputError(f"{name}: {_why_none(text)}")
        return Source(name, definitions, definitions.profile, path)
    document = Document.loads(text, name)
    return Source(name, document, document.profile, path, text)


def _why_none(text: str) -> str:
    """Return why a JSON object is no topology: it is an error that some API answered, or it has none of the parts."""
    document = parse(text, halves=True)
    if isinstance(document, dict) and isinstance(document.get("error"), str):
        reason = document.get("reason")
        answer = f"{document['error']}{f' ({reason})' if isinstance(reason, str) else ''}"
        return f"no topology, but the error that an API has answered: {clip_line(answer, ANSWER_SHOWN)}"
    for key in document if isinstance(document, dict) else ():
        near = suggest(key, SECTIONS)
        if near:
            shown = clip_line(key, ANSWER_SHOWN)
            return f"no topology: it has none of exchanges, queues, bindings and policies, but '{shown}'{near}"
    return "no topology: it has none of exchanges, queues, bindings and policies"


def _of_format(known: TopologyFormat, imported: Imported, name: str, path: str | None) -> Source:
    definitions = imported.definitions
    return Source(name, definitions, definitions.profile, path, format=known, imported=imported)


def load(
    where: str | PathLike[str],
    vhost: str | None = None,
    profile: Profile | str | None = None,
    *,
    seconds: float = ANSWER_SECONDS,
) -> Topology:
    """Return the topology of a file or a live broker.

    ``where`` is a path, ``-`` or the address of a management API, see `open_source`. ``vhost`` may be left out if there
    is only one. ``profile`` names the RabbitMQ release whose rules apply; without it that of the source, else the
    newest.

    Raises InputError, which names the source and the position in it, if it cannot be read or understood, has no such
    virtual host, or has several to choose from.

    >>> load("examples/orders/orders.bindings").vhost
    '/shop'
    """
    topology = open_source(where, vhost, seconds=seconds).topology(vhost, profile)
    warn_of(topology.profile, 2)
    return topology
