"""Dead letters in groups: what died alike, with how many, since when, and where they would go now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from bindings.archive.fields import decode_tables
from bindings.archive.names import unescape
from bridge.dead.columns import Alike, find_alike, read_key
from bridge.dead.conventions import Death, find_death
from bridge.dead.verdicts import Judge, Verdict
from exchange.selector import Selector, properties_of
from exchange.values.message import Message

GROUPS: Final = 10_000
"""Maximum number of groups. Further dead letters are counted, in no group."""
KEYS: Final = 50
"""Maximum number of keys of one group's kin, groups that differ by the key alone, whose words are all kept."""
WORDS: Final = 10
"""Maximum number of words at one place of their keys; if there are more, the place varies."""
VERDICTS: Final = 20
"""Maximum number of different verdicts that are counted for one group."""
OTHERS: Final = Verdict(None, (), None, "in other ways")


@dataclass(slots=True)
class Group:
    """Dead letters of one kind."""

    count: int = 0
    since: int | None = None
    until: int | None = None
    tries: int = 0
    source: str = ""
    """Where an example is, the first that was read."""
    offset: int | None = None
    key: str = ""
    """The routing key of the example."""
    verdicts: Counter[Verdict] = field(default_factory=Counter)

    def add(self, other: Group) -> None:
        """Add another group, which was read later."""
        if not self.count:
            self.source, self.offset, self.key = other.source, other.offset, other.key
        self.count += other.count
        self.since = min([each for each in (self.since, other.since) if each is not None], default=None)
        self.until = max([each for each in (self.until, other.until) if each is not None], default=None)
        self.tries = max(self.tries, other.tries)
        for verdict, count in other.verdicts.items():
            known = verdict in self.verdicts or len(self.verdicts) < VERDICTS
            self.verdicts[verdict if known else OTHERS] += count


class Grouping:
    """Groups batches of messages. ``judge`` says where they would go now, ``where`` selects messages."""

    def __init__(self, judge: Judge | None = None, where: Selector | None = None) -> None:
        self.looked_at = 0
        """Number of messages that were looked at."""
        self.ungrouped = 0
        """Number of selected messages that are in no group, as there are too many."""
        self._judge = judge
        self._where = where
        self._groups: dict[Death, Group] = {}
        self._varying: dict[Hashable, frozenset[int]] = {}
        """Kin, and number of words -> places of the words that vary."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Add messages, with the columns `bridge.dead.columns.COLUMNS`."""
        self.looked_at += batch.num_rows
        if self._where is not None:
            batch = _select(batch, self._where)
        for alike in find_alike(batch, by_key=self._judge is not None):
            death, key = find_death(alike.headers, alike.exchange, alike.key)
            death, first = self._blur(death), alike.rows[0]
            source, offset = unescape(batch.column("source")[first].as_py()), batch.column("offset")[first].as_py()
            group = Group(alike.number, alike.since, alike.until, alike.tries, source, offset, key)
            if self._judge is not None:
                self._add_verdicts(group, self._judge, batch, alike, death, key)
            elif death not in self._groups:
                group.key = read_key(batch, first)
            self._put(death, group)

    def _add_verdicts(
        self, group: Group, judge: Judge, batch: pa.RecordBatch, alike: Alike, death: Death, key: str
    ) -> None:
        if not alike.has_cc and (verdict := judge.recall(death, key)) is not None:
            group.verdicts[verdict] += alike.number
            return
        for row in alike.rows:  # more than the key decides
            headers, properties = (
                decode_tables(batch.column(name).slice(row, 1))[0] for name in ("headers", "properties")
            )
            group.verdicts[judge.judge(death, Message(death.exchange or "", key, headers, properties))] += 1

    def _put(self, death: Death, group: Group) -> None:
        known = self._groups.get(death)
        if known is None and len(self._groups) >= GROUPS:
            self._merge()
            death = self._blur(death)
            known = self._groups.get(death)
            if known is None and len(self._groups) >= GROUPS:
                self.ungrouped += group.count
                return
        if known is None:
            known = self._groups[death] = Group()
        known.add(group)

    def _merge(self) -> None:
        """Merge groups that differ by words of their keys that vary."""
        kin: dict[Death, list[Death]] = {}
        for death in self._groups:
            kin.setdefault(_kin(death), []).append(death)
        for family, deaths in kin.items():
            if len(deaths) <= KEYS:
                continue
            for size, keys in _by_size(deaths):
                places = frozenset([at for at, words in enumerate(zip(*keys, strict=True)) if len({*words}) > WORDS])
                self._varying[family, size] = places | self._varying.get((family, size), frozenset())
        groups, self._groups = self._groups, {}
        for death, group in groups.items():
            self._groups.setdefault(self._blur(death), Group()).add(group)

    def _blur(self, death: Death) -> Death:
        """Return a death with ``*`` for the words of its key that vary."""
        places = self._varying.get((_kin(death), death.key.count("."))) if self._varying else None
        if not places:
            return death
        words = ["*" if at in places else word for at, word in enumerate(death.key.split("."))]
        return death._replace(key=".".join(words))

    def finish(self) -> list[tuple[Death, Group]]:
        """Return the groups, the largest first."""
        self._merge()
        return sorted(self._groups.items(), key=lambda each: (-each[1].count, _order(each[0])))


def _order(death: Death) -> list[tuple[bool, str]]:
    """Return what sorts deaths, also those of which the exchange is not known."""
    return [(each is not None, each or "") for each in death]


def _kin(death: Death) -> Death:
    return death._replace(key="")


def _by_size(deaths: Iterable[Death]) -> Iterable[tuple[int, list[list[str]]]]:
    """Return the keys as words, by how many dots they have."""
    sizes: dict[int, list[list[str]]] = {}
    for death in deaths:
        sizes.setdefault(death.key.count("."), []).append(death.key.split("."))
    return sizes.items()


def _select(batch: pa.RecordBatch, where: Selector) -> pa.RecordBatch:
    """Return the messages that a selector matches."""
    tables = (decode_tables(batch.column(name)) for name in ("headers", "properties"))
    names = (batch.column(name).to_pylist() for name in ("exchange", "routing_key"))
    rows = zip(*names, *tables, strict=True)
    messages = (Message(unescape(exchange), unescape(key), *fields) for exchange, key, *fields in rows)
    return batch.filter(pa.array([where(properties_of(each, where.names)) for each in messages], pa.bool_()))
