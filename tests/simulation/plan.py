"""What happens in one simulated life of a bridge, as a value: all but the turns of the loop, which the seed decides.

A plan that breaks a promise is made smaller by leaving out faults and messages, and becomes a row of
`tests/simulation/test_simulation.py` as it is printed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from bridge.interop.filtering import Filter
from bridge.pump.policy import Backoff, Policy, Unroutable
from exchange import Binding, Exchange, Queue, Topology
from exchange.selector import Selector

TARGETS: Final = ("all", "odd", "dead")
"""Targets: two queues of the topology, and the dead letters."""

OF_SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "queue": ("lose", "lose", "down", "wrong", "hang", "quiet", "break settling"),
    "log": (
        "lose", "lose", "down", "hang", "quiet", "break settling", "rebalance", "rebalance", "fence",
        "open transaction",
    ),
    "rabbitmq": ("lose", "lose", "down", "hang", "quiet", "remade", "remade"),
    "kafka": (
        "lose", "lose", "down", "hang", "quiet", "rebalance", "rebalance", "fence", "commit", "commit", "remade",
        "remade", "open transaction", "open transaction", "forget", "cut off",
    ),
    "share": (
        "lose", "lose", "down", "hang", "quiet", "rebalance", "fence", "fence", "acknowledge", "acknowledge",
    ),
    "transactional": (
        "lose", "lose", "down", "hang", "quiet", "rebalance", "rebalance", "fence", "fence", "forget",
        "open transaction",
    ),
    "rocketmq": (
        "lose", "lose", "down", "down", "hang", "mute", "rebalance", "rebalance", "commit", "commit", "moved", "remade",
    ),
    "orderly": (
        "lose", "lose", "down", "down", "hang", "mute", "rebalance", "rebalance", "commit", "commit", "moved", "remade",
    ),
}  # fmt: skip
"""Kind of a source, or ``transactional`` for Kafka's whose offsets are in transactions -> its faults."""

SHARED: Final = ("queue", "log", "rabbitmq", "share", "rocketmq", "orderly")
"""Kinds of sources that several workers share here."""
UNORDERED: Final = ("queue", "rabbitmq")
"""Those of which the order of a key is kept within a worker only."""
SCATTERED: Final = ("share",)
"""Those that have no order."""

OF_MODEL: Final = (
    "lose", "lose", "down", "wrong", "hang", "slow", "slow", "mute", "twice", "refuse", "refuse", "push back",
    "push back", "wait",
)  # fmt: skip
OF_TARGETS: Final = {
    "model": OF_MODEL,
    "rabbitmq": (
    "lose", "lose", "down", "hang", "mute", "refuse", "push back", "push back", "wait", "wait", "wait", "block",
    ),
    "kafka": ("lose", "lose", "down", "hang", "mute"),
    "transactional": (
        "lose", "down", "hang", "mute", "mute", "coordinator", "coordinator", "coordinator", "abortable", "fenced",
    ),
    "rocketmq": ("lose", "lose", "down", "hang", "mute", "push back", "push back", "unsafe", "forbid", "moved"),
    "archive": ("full", "full", "sync", "rename", "rename", "read-only"),
}  # fmt: skip
"""Kind of the targets -> their faults."""
TRANSACTIONAL: Final = ("transactional", "partly")
"""Kinds of targets of Kafka's sources that have transactions: for both queues, or for ``all`` alone."""
OF_BRIDGE: Final = ("kill", "stop", "pause", "resume", "drain", "reload", "reload", "reload", "reload")

ODD: Final = ("refused", "refused", "unroutable", "raises", "filtered")
"""What may be odd about a message: a target refuses it for good, no queue gets it, sending it raises, its source's
filter rejects it."""
FILTER: Final = Filter(Selector.parse("NOT (routing_key STARTSWITH 'f.')"))
"""The filter of all sources."""

SECONDS: Final = (0.0, 0.02, 0.3, 2.0, 15.0, 90.0)
"""How long faults last, in seconds."""


TOPOLOGY: Final = (
    Topology()
    .declare_exchange(Exchange("in", "topic"))
    .declare_queue(Queue("all"))
    .declare_queue(Queue("odd"))
    .bind(Binding.to_queue("in", "all", "k.#"))
    .bind(Binding.to_queue("in", "odd", "k.1"))
)
NARROW: Final = TOPOLOGY.unbind(Binding.to_queue("in", "odd", "k.1"))

TO_WINDOW, TO_ORDER, TO_NARROW, TO_SPLIT, TO_MISTAKE = range(1, 6)
"""What an owner edits before a reload, by `Fault.number`; 0 is nothing."""
EDITED_WINDOW: Final = 8


@dataclass(frozen=True)
class Fault:
    """A fault, from ``at`` on for a number of seconds; both are of the virtual clock."""

    at: float
    where: str
    """The name of a source or target, or ``bridge``."""
    what: str
    seconds: float = 0.0
    number: int = 0
    """What else the fault needs to be one: which messages are refused, how many are written at the end."""


@dataclass(frozen=True)
class Plan:
    """A life of a bridge, of two sources at most and three targets."""

    seed: int
    sources: tuple[str, ...] = ("queue",)
    targets: str = "model"
    """``model``, or the real targets, over models of brokers or a disk: a key of `OF_TARGETS`, or ``partly``."""
    messages: int = 24
    keys: int = 3
    odd: tuple[tuple[int, str], ...] = ()
    """Numbers of messages that are odd, and what they are."""
    span: float = 2.0
    """Seconds over which messages are published."""
    window: int = 4
    window_bytes: int = 1 << 20
    tries: int = 3
    one_at_a_time: bool = False
    dead_letters: bool = True
    give_up_after: float | None = None
    max_dead_letters: float = 0.5
    drop: bool = False
    """Whether messages that no queue gets are dropped."""
    drain: float = 10.0
    workers: int = 1
    """Processes that share its sources."""
    is_narrow: bool = False
    """Whether the topology lacks the binding of the queue ``odd``."""
    faults: tuple[Fault, ...] = field(default=())

    @property
    def policy(self) -> Policy:
        """The bridge's policy."""
        return Policy(
            self.window, self.window_bytes, self.tries, Backoff(0.1, 10.0), Backoff(0.2, 5.0),
            Unroutable.DROP if self.drop else Unroutable.DEAD_LETTER, self.one_at_a_time, drain=self.drain,
            give_up_after=self.give_up_after, max_dead_letters=self.max_dead_letters,
        )  # fmt: skip

    @property
    def topology(self) -> Topology:
        """The topology."""
        return NARROW if self.is_narrow else TOPOLOGY

    @property
    def is_transactional(self) -> bool:
        """Whether messages of the queue ``all`` and the offsets of sources are in transactions."""
        return self.targets in TRANSACTIONAL

    def target_of(self, queue: str) -> str:
        """Return the target of a queue, or of the dead letters."""
        return "all" if self.targets == "transactional" and queue == "odd" else queue

    @property
    def edits(self) -> frozenset[int]:
        """What its reloads may have changed before."""
        return frozenset([each.number for each in self.faults if each.what == "reload"])

    @property
    def may_be_narrow(self) -> bool:
        """Whether the topology may lack the binding of the queue ``odd`` at some time."""
        return self.is_narrow or TO_NARROW in self.edits

    @property
    def widest_window(self) -> int:
        """The widest window that it may have at some time."""
        return max(self.window, EDITED_WINDOW) if TO_WINDOW in self.edits else self.window

    @property
    def ends(self) -> float:
        """Time from which on everything is well."""
        return max([self.span, *[each.at + each.seconds for each in self.faults]])

    def without(self, faults: tuple[Fault, ...], messages: int) -> Plan:
        """Return a smaller plan, of these faults and so many messages."""
        odd = tuple([each for each in self.odd if each[0] < messages])
        return replace(self, faults=faults, messages=messages, odd=odd)

    def __str__(self) -> str:
        """Return it as Python, without what is as by default."""
        usual = Plan(self.seed)
        given = [
            f"{name}={value!r}"
            for name in self.__dataclass_fields__
            if (value := getattr(self, name)) != getattr(usual, name) or name == "seed"
        ]
        return f"Plan({', '.join(given)})"


@dataclass(frozen=True)
class File:
    """What the file of a bridge says: one pipeline of all sources, or one for each."""

    rules: Plan
    """Policy and topology of the pipeline, or the first one."""
    others: Plan
    """Policy and topology of further pipelines."""
    is_split: bool = False
    mistake: str = ""
    """What only a restart can change, or is wrong."""

    @property
    def pipelines(self) -> dict[str, tuple[Plan, tuple[int, ...]]]:
        """Pipeline -> its rules, and the numbers of its sources; "" is the name of the only one."""
        sources = range(len(self.rules.sources))
        if not self.is_split:
            return {"": (self.rules, (*sources,))}
        return {f"p{at}": (self.others if at else self.rules, (at,)) for at in sources}

    def edit(self, number: int) -> File:
        """Return what it says after the edit of a reload."""
        rules = self.rules
        if number == TO_WINDOW:
            wide, tries = rules.window != EDITED_WINDOW, 1 if rules.tries > 1 else 3
            return self._with(window=EDITED_WINDOW if wide else 1, tries=tries)
        if number == TO_ORDER:
            patience = None if rules.give_up_after is not None else 5.0
            return self._with(one_at_a_time=not rules.one_at_a_time, give_up_after=patience)
        if number == TO_NARROW:
            return self._with(is_narrow=not rules.is_narrow)
        if number == TO_SPLIT and rules.targets not in ("archive", *TRANSACTIONAL):  # which have one writer
            return replace(self, is_split=not self.is_split)
        return self

    def _with(self, **changes: Any) -> File:
        return replace(self, rules=replace(self.rules, **changes))


def make_plan(seed: int) -> Plan:
    """Make the plan of a seed."""
    random = Random(seed)
    workers = random.choice((1, 1, 1, 2))
    systems = ("queue", "log", "rabbitmq", "kafka", "kafka", "share", "rocketmq", "orderly")
    sources = tuple(random.choices(systems if workers == 1 else SHARED, k=random.choice((1, 1, 2))))
    targets = random.choice(("model", "model", "rabbitmq", "kafka", "archive" if workers == 1 else "model", "rocketmq"))
    if workers == 1 and random.random() < 0.12:
        sources, targets = ("kafka",) * len(sources), random.choice(TRANSACTIONAL)
    messages = random.choice((6, 16, 40))
    span = random.choice((0.0, 0.5, 2.0, 10.0))
    many_are_odd = random.random() < 0.15
    odd = tuple(
        [
            (number, random.choice(ODD))
            for number in range(messages)
            if random.random() < (0.7 if many_are_odd else 0.06)
        ]
    )
    places = [
        *[
            (
                f"{kind}-{at}",
                OF_SOURCES["transactional" if targets in TRANSACTIONAL else kind]
                if workers == 1
                else [each for each in OF_SOURCES[kind] if each != "remade"],
            )
            for at, kind in enumerate(sources)
        ],
        *[
            (name, [*(OF_TARGETS["transactional"] if name == "all" else OF_MODEL)])
            if targets in TRANSACTIONAL
            else (name, [*OF_TARGETS[targets]])
            for name in TARGETS
        ],
    ]
    places = [*places, places[-3], ("bridge", [*OF_BRIDGE])]
    faults: list[Fault] = []
    for _ in range(random.choice((1, 5, 10, 20))):
        name, kinds = random.choice(places)
        at = random.random() * (span + random.choice((0.05, 0.3, 3.0)))
        if faults and random.random() < 0.6:  # faults that meet are what programs are not made for
            at = faults[-1].at + random.random() * random.choice((0.05, 0.5))
            if random.random() < 0.5:
                name, kinds = next(each for each in places if each[0] == faults[-1].where)
        fault = Fault(round(at, 3), name, random.choice(kinds), random.choice(SECONDS), random.randrange(6))
        faults.append(fault)
    return Plan(
        seed, sources, targets, messages, random.choice((1, 3, 3, 8)), odd, span, random.choice((1, 4, 4, 20)),
        random.choice((2, 100, 1 << 20, 1 << 20)), random.choice((1, 2, 3)), random.random() < 0.3,
        random.random() < 0.8, random.choice((None, None, 5.0)), random.choice((0.2, 0.5, 0.5, 1.0)),
        random.random() < 0.3, random.choice((1.0, 10.0)), workers,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )  # fmt: skip
