"""Look at the upgrade of a source from beginning to end: what it does, the transformed definitions, the traffic."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from bindings.applying.address import Addresses
from bindings.archive.places import CATALOG, parse_address, show_place
from bindings.diffing.comparison.meaning import Meaning
from bindings.diffing.diff import SECONDS
from bindings.sources.definitions import Definitions
from bindings.sources.files import decode_text, gunzip, open_file, read_whole
from bindings.sources.formats import RECORDING
from bindings.sources.open import Source, open_source
from bindings.sources.recording.file import is_recording, read_recording
from bindings.sources.recording.model import RecordedClient, RecordedPublishing, Recording, UnreadConnections
from bindings.upgrading.live.comparing import LIVE_SECONDS, ProbeMessage, ask_broker
from bindings.upgrading.live.fresh_host import DENIABLE, find_permitted_features
from bindings.upgrading.releases import KNOWN, Release, release_of
from bindings.upgrading.requests.applications import find_refused
from bindings.upgrading.transform.transform import choose, transform_definitions
from bindings.upgrading.upgrade import Upgrade, VhostUpgrade, plan_upgrade
from exchange.entities.profile import read_release
from exchange.entities.releases import LATEST_PROFILE, find_closest_profile, warn_of
from exchange.errors import BrokerError, InputError, name_os_errors
from exchange.routing.router import Router
from exchange.text.site import build_install_command
from exchange.topology.topology import Topology
from exchange.values.message import Message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEWEST: Final = LATEST_PROFILE.name.removeprefix("rabbitmq-")
SAMPLE: Final = 256 << 20
"""Number of bytes of an archive that are read by default."""

Path = str | os.PathLike[str]
HEAD: Final = 200
"""Number of bytes at the beginning of a file that show whether it is a recording."""
UNKNOWN: Final = ""
"""Time where the archive has none."""


def upgrade(
    topology: Topology | Source | Path,
    new: str = NEWEST,
    *,
    old: str | None = None,
    vhost: str | None = None,
    transform: str | Iterable[str] | None = None,
    archives: Path | Sequence[Path] = (),
    sample_bytes: int | None = SAMPLE,
    spark: SparkSession | None = None,
    declares: Path | Sequence[Path] = (),
    permitted: Iterable[str] = (),
    live: Addresses | None = None,
    live_seconds: float = LIVE_SECONDS,
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] | None = None,
) -> Upgrade:
    """Return what an upgrade of RabbitMQ to a new release does to a topology.

    The topology is a value, or a path, ``-`` or a broker's address, which `open_source` opens. ``old`` is its release
    now; without it that which an export or a broker names, or the topology's profile. All virtual hosts are looked at,
    or only ``vhost``.

    ``transform`` names transformations, ``"default"`` those that the new release needs: then each virtual host also
    has its topology as the new release wants it, and a source its definitions. ``archives`` are files and folders as
    `audit` reads them: then each virtual host also has the messages that are routed differently, out of parts of
    ``sample_bytes`` altogether (None: all); with a Spark session, all are counted on its workers. The comparisons of
    routes take ``seconds`` at most; ``progress`` is called with the numbers of destinations compared and to compare,
    then of bytes read and to read.

    ``declares`` are recordings of `hashstar record`, or archives: then there is what the new release refuses the
    applications. ``permitted`` has the deprecated features that the new broker is configured to permit. ``live`` is a
    test broker of the new release, which is asked all this for ``live_seconds`` at most, in virtual hosts of its own.

    >>> topology = Topology(queues=[Queue("replies", durable=False)])
    >>> result = upgrade(topology, "4.3", old="4.2", transform=["default"])
    >>> [vhost] = result.vhosts
    >>> [sighting.fact.id for sighting in vhost.sightings if sighting.parts]
    ['HSU005']
    >>> vhost.transformed.topology.queues["replies"].durable, vhost.severity
    (True, None)

    Raises InputError for a source that cannot be read or names no release, for releases that are unknown or not newer,
    for unknown transformations and features, and if the test broker cannot be asked.
    """
    source = topology if isinstance(topology, Topology | Source) else open_source(topology, vhost)
    after = release_of(new)
    before = _release_in(source, after) if old is None else release_of(old)
    for release in (before, after):
        warn_of(release.profile, 2)
    chosen = [transform] if isinstance(transform, str) else transform
    names = None if chosen is None else choose(chosen, before, after)
    if isinstance(source, Topology):
        topologies = [source]
    else:
        topologies = [source.routable(name, before.profile) for name in (source.vhosts if vhost is None else (vhost,))]
    features = _permitted(permitted, live)
    result = plan_upgrade(
        topologies, before, after, names=names, permitted=features, seconds=seconds, progress=progress
    )
    if names is not None and isinstance(source, Source):
        content = source.content if vhost is None else source.content.only(vhost)
        transformed = [each.transformed.topology for each in result.vhosts if each.transformed is not None]
        result = result._replace(definitions=transform_definitions(content, transformed, names))
    old_topologies = [topology.with_profile(before.profile) for topology in topologies]
    new_topologies = [
        topology.with_profile(after.profile) if vhost.transformed is None else vhost.transformed.topology
        for topology, vhost in zip(topologies, result.vhosts, strict=True)
    ]
    if archives:
        pairs = [*zip(old_topologies, new_topologies, strict=True)]
        step = progress or (lambda done, of: None)
        result = _with_traffic(result, pairs, _list_paths(archives), sample_bytes, spark, step)
    recordings = _read_recordings(source, declares)
    if recordings:
        found = find_refused(new_topologies, recordings, after, features, vhost, old_topologies)
        result = result._replace(applications=found)
    if live is not None:
        witnesses = [
            _witnesses_of(topology, each.difference.meaning)
            for topology, each in zip(old_topologies, result.vhosts, strict=True)
        ]
        shown = ask_broker(live, new_topologies, recordings, witnesses, after, seconds=live_seconds)
        result = result._replace(live=shown)
    return result


def _read_recordings(source: Topology | Source, paths: Path | Sequence[Path]) -> list[Recording]:
    """Read what was recorded; a source that is a recording is one of them."""
    names = _list_paths(paths)
    if isinstance(source, Source) and source.format is RECORDING and source.path is not None:
        names = [source.path, *(name for name in names if name != source.path)]
    return [_read_asked(name) for name in names]


def _list_paths(given: Path | Sequence[Path]) -> list[str]:
    return [os.fspath(path) for path in ([given] if isinstance(given, str | os.PathLike) else given)]


def _permitted(names: Iterable[str], live: Addresses | None) -> frozenset[str]:
    """Return the deprecated features that the new broker permits. Raises InputError for a name that is none."""
    given = frozenset(names)
    unknown = sorted(given - set(DENIABLE))
    if unknown:
        raise InputError(f"{unknown[0]}: no feature that a release denies; there are {', '.join(DENIABLE)}")
    return given | (frozenset() if live is None else find_permitted_features(live.management))


def _release_in(source: Topology | Source, new: Release) -> Release:
    """Return the release that a source names. Raises InputError if it names none, or a topology alone none before."""
    if isinstance(source, Topology):
        own = release_of(source.profile.written)
        if own.numbers >= new.numbers:
            raise InputError(f"the topology has the rules of {own}: name the release that it is on, old='4.2'")
        return own
    named = source.content.rabbitmq_version if isinstance(source.content, Definitions) else None
    if named is None and source.profile is not None:
        named = source.profile.written
    if named is None:
        raise InputError(f"{source.name} names no release of RabbitMQ; give --from RELEASE")
    numbers = read_release(named)
    if numbers is not None and numbers < release_of(KNOWN[0]).numbers and find_closest_profile(named) == source.profile:
        return release_of(KNOWN[0])  # as every command, and with the same warning
    try:
        return release_of(named)
    except InputError as error:
        raise InputError(f"{source.name}: {error}; give --from RELEASE") from None


def _with_traffic(
    result: Upgrade,
    pairs: Sequence[tuple[Topology, Topology]],
    archives: Sequence[str],
    sample_bytes: int | None,
    spark: SparkSession | None,
    step: Callable[[int, int], None],
) -> Upgrade:
    """Return an upgrade with the messages of archives that move; Arrow is needed for these only.

    ``pairs`` are the topologies of each virtual host before and after the upgrade.
    Raises NoRecords if the archives have no messages of any virtual host.
    """
    from bindings.auditing.local.run import NoRecords
    from bindings.upgrading.traffic import count_traffic

    vhosts: list[VhostUpgrade] = []
    for each, (before, after) in zip(result.vhosts, pairs, strict=True):
        try:
            traffic = count_traffic(before, after, archives, most_bytes=sample_bytes, spark=spark, step=step)
        except NoRecords:
            if len(vhosts) == len(pairs) - 1 and not any(vhost.traffic for vhost in vhosts):
                raise
            vhosts.append(each)
        else:
            vhosts.append(each._replace(traffic=traffic))
    return result._replace(vhosts=tuple(vhosts))


def _witnesses_of(before: Topology, meaning: Meaning) -> list[ProbeMessage]:
    """Return the messages of a comparison, each once, with the queues to which the old release routes them."""
    router = Router(before)
    found: dict[tuple[str, str, str], ProbeMessage] = {}
    for message in _messages(meaning):
        key = (message.exchange, message.routing_key, repr(sorted(message.headers.items(), key=repr)))
        if key not in found:
            try:
                queues = frozenset(router.route(message).queues)
            except BrokerError:
                queues = frozenset()
            found[key] = ProbeMessage(message, queues)
    return [*found.values()]


def _messages(meaning: Meaning) -> Iterator[Message]:
    yield from (effect.witness for effect in meaning.effects)
    yield from (lost.witness for lost in meaning.unroutable)
    yield from (choice.witness for choice in meaning.choices)


def _read_asked(path: str) -> Recording:
    """Return what a file has recorded. Raises InputError, which names the file."""
    if parse_address(path) is not None or path.startswith(CATALOG):
        return _read_archive(path)
    with name_os_errors(path), open_file(path) as file:
        is_pipe = not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        head = file.read(HEAD)
        may_be_recording = is_pipe or b'"recording"' in head or head.startswith(b"\x1f\x8b")
        data = head + read_whole(file, path) if may_be_recording else b""
    if may_be_recording:
        text = decode_text(gunzip(data, path), path)
        if is_recording(text):
            return read_recording(text, path)
    if is_pipe:
        raise InputError(f"{path}: no recording of hashstar record; an archive is a file that stays, not a pipe")
    try:
        return _read_archive(path)
    except ImportError:
        raise InputError(
            f"{show_place(path)}: no recording of hashstar record; archives need {build_install_command('audit')}"
        ) from None


def _read_archive(path: str) -> Recording:
    from bindings.archive.formats.detect import detect  # needs pyarrow, which a recording does not
    from bindings.archive.reading import Bad, Skipped, read_split

    try:
        archive = detect(path)
    except InputError as error:
        raise InputError(f"{error}; and it is no recording of hashstar record: that begins with its kind") from None
    recording = Recording(archive.path, UNKNOWN, UNKNOWN)
    client = RecordedClient(name=f"publishers in {', '.join(archive.formats)}")
    rows: dict[tuple[str, str], RecordedPublishing] = {}
    for form, split in archive.plan():
        for item in read_split(form, split, ("vhost", "exchange", "body_size")):
            if isinstance(item, Skipped):
                continue
            if isinstance(item, Bad):
                recording.unread[UnreadConnections("archive", item.reason)] += 1
                continue
            columns = (item.column(name).to_pylist() for name in ("vhost", "exchange", "body_size"))
            for vhost, exchange, size in zip(*columns, strict=True):
                key = (vhost or "/", exchange)
                row = rows.get(key)
                if row is None:
                    row = rows[key] = RecordedPublishing(client, *key, False, False, UNKNOWN, UNKNOWN)
                row.messages += 1
                row.max_bytes = max(row.max_bytes, size or 0)
    recording.connections[client] += 1
    recording.publishing = [*rows.values()]
    return recording
