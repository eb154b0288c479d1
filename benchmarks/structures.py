"""The structures that a matcher could be made of, each as small as it can be, beside the one that it is made of.

They answer docs/decisions/0002-matcher.md's question with figures anyone can repeat. All have a dict for patterns
without wildcards in front of them, since every one of them is better for it; what differs is what they do with the
others. Before a structure is timed, it must agree with ``Pattern.matches`` on random keys. The two traps are workloads
on which a natural idea explodes: the states of an automaton, the ways of a search that backtracks. A structure that
needs more than ``PATIENCE`` seconds for a trap's first keys is stopped, and its row shows that.
"""

from __future__ import annotations

import gc
import random
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from multiprocessing import get_context
from typing import Final, NamedTuple, Protocol

from benchmarks.measure import Contestant, in_child, microseconds_per, resident_mb, time_call
from benchmarks.workloads import Topics, dense_1k, many_hashes, sparse_100k, state_trap
from exchange import Matcher, Pattern
from exchange.patterns.pattern import MANY, ONE, Word, normalise_wildcards


class Structure(Protocol):
    """Patterns, searched by key: what is found is their texts."""

    def bind(self, pattern: Pattern) -> None: ...

    def unbind(self, pattern: Pattern) -> None: ...

    def match(self, key: str) -> Iterable[str]: ...


class Scan:
    """All patterns, each asked by its own definition."""

    def __init__(self) -> None:
        self._patterns: dict[Pattern, None] = {}

    def bind(self, pattern: Pattern) -> None:
        self._patterns[pattern] = None

    def unbind(self, pattern: Pattern) -> None:
        del self._patterns[pattern]

    def match(self, key: str) -> Iterable[str]:
        return [pattern.text for pattern in self._patterns if pattern.matches(key)]


class Regexes:
    """All patterns, each a regular expression, as kombu does but translated correctly: every word ends with a dot."""

    def __init__(self) -> None:
        self._matches: dict[str, Callable[[str], object]] = {}

    def bind(self, pattern: Pattern) -> None:
        text = "".join([_EXPRESSIONS.get(word) or re.escape(str(word)) + r"\." for word in pattern.words])
        self._matches[pattern.text] = re.compile(text, re.DOTALL).fullmatch

    def unbind(self, pattern: Pattern) -> None:
        del self._matches[pattern.text]

    def match(self, key: str) -> Iterable[str]:
        words = key + "." if key else ""
        return [text for text, matches in self._matches.items() if matches(words)]


_EXPRESSIONS: Final[dict[Word, str]] = {ONE: r"[^.]*\.", MANY: r"(?:[^.]*\.)*"}


class Node:
    """A node of a trie: what follows by word, and the patterns that end here."""

    __slots__ = ("here", "next")

    def __init__(self) -> None:
        self.next: dict[Word, Node] = {}
        self.here: list[str] = []


class Trie:
    """A trie, walked word by word with the set of nodes reached so far; a node behind a ``#`` reaches itself."""

    def __init__(self) -> None:
        self.root = Node()

    def bind(self, pattern: Pattern) -> None:
        node = self.root
        for word in normalise_wildcards(pattern.words):
            node = node.next.setdefault(word, Node())
        node.here.append(pattern.text)

    def unbind(self, pattern: Pattern) -> None:
        path = [self.root]
        words = normalise_wildcards(pattern.words)
        for word in words:
            path.append(path[-1].next[word])
        path[-1].here.remove(pattern.text)
        for parent, word in zip(path[-2::-1], words[::-1], strict=True):
            if parent.next[word].next or parent.next[word].here:
                return
            del parent.next[word]

    def match(self, key: str) -> Iterable[str]:
        nodes = self.start()
        for word in key.split(".") if key else ():
            nodes = self.step(nodes, word)
        return [text for node in nodes for text in node.here]

    def start(self) -> dict[Node, bool]:
        """Return the nodes reached by no word; True for those that any further word leads back to."""
        reached: dict[Node, bool] = {}
        self._reach(reached, self.root)
        return reached

    def step(self, nodes: dict[Node, bool], word: str) -> dict[Node, bool]:
        """Return the nodes reached by one more word."""
        reached: dict[Node, bool] = {}
        for node, loops in nodes.items():
            if loops:
                reached[node] = True
            for following in (node.next.get(word), node.next.get(ONE)):
                if following is not None:
                    self._reach(reached, following)
        return reached

    @staticmethod
    def _reach(reached: dict[Node, bool], node: Node) -> None:
        reached.setdefault(node, False)
        if MANY in node.next:
            reached[node.next[MANY]] = True


class State(dict[str, "State"]):
    """A set of a trie's nodes and, as a dict, the states its words lead to as far as they were needed."""

    __slots__ = ("found", "nodes")

    def __init__(self, nodes: dict[Node, bool]) -> None:
        self.nodes = nodes
        self.found = [text for node in nodes for text in node.here]


class Automaton:
    """The same walk, its sets of nodes kept as the states of an automaton that grows on demand up to a bound."""

    STATES: Final = 65_536

    def __init__(self) -> None:
        self._trie = Trie()
        self._forget()

    def bind(self, pattern: Pattern) -> None:
        self._trie.bind(pattern)
        self._forget()

    def unbind(self, pattern: Pattern) -> None:
        self._trie.unbind(pattern)
        self._forget()

    def match(self, key: str) -> Iterable[str]:
        state = self._start
        for word in key.split(".") if key else ():
            following = state.get(word)
            state = self._add(state, word) if following is None else following
        return state.found

    def _add(self, state: State, word: str) -> State:
        nodes = self._trie.step(state.nodes, word)
        if len(self._states) >= self.STATES:
            self._forget()
        known = self._states.setdefault(frozenset(nodes.items()), State(nodes))
        state[word] = known
        return known

    def _forget(self) -> None:
        self._states: dict[frozenset[tuple[Node, bool]], State] = {}
        self._start = State(self._trie.start())


class Bits:
    """All patterns side by side in one integer: bit i is set when the words before place i are matched."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}  # by the place where they end
        self._places: dict[str, int] = {}  # where they start
        self._end = 0
        self._free: dict[int, list[int]] = {}
        self._words: dict[Word, int] = {ONE: 0, MANY: 0}  # the places that each leads on from
        self._start = self._ends = 0

    def bind(self, pattern: Pattern) -> None:
        words = normalise_wildcards(pattern.words)
        free = self._free.get(len(words))
        if free:
            place = free.pop()
        else:
            place = self._end
            self._end += len(words) + 1
        self._places[pattern.text] = place
        self._texts[place + len(words)] = pattern.text
        self._flip(words, place)

    def unbind(self, pattern: Pattern) -> None:
        words = normalise_wildcards(pattern.words)
        place = self._places.pop(pattern.text)
        del self._texts[place + len(words)]
        self._flip(words, place)
        self._free.setdefault(len(words), []).append(place)

    def match(self, key: str) -> Iterable[str]:
        one, many, leads = self._words[ONE], self._words[MANY], self._words.get
        reached = self._start | (self._start & many) << 1
        for word in key.split(".") if key else ():
            reached = (reached & (leads(word, 0) | one)) << 1 | reached & many
            reached |= (reached & many) << 1
        reached &= self._ends
        found = []
        while reached:
            place = reached.bit_length() - 1
            found.append(self._texts[place])
            reached ^= 1 << place
        return found

    def _flip(self, words: Sequence[Word], place: int) -> None:
        self._start ^= 1 << place
        self._ends ^= 1 << place + len(words)
        for at, word in enumerate(words, place):
            self._words[word] = self._words.get(word, 0) ^ 1 << at
            if not self._words[word] and isinstance(word, str):
                del self._words[word]


class Ours:
    """The matcher."""

    def __init__(self, cache: int = 65_536) -> None:
        self._matcher: Matcher[str] = Matcher(cache=cache)
        self.match = self._matcher.match

    def bind(self, pattern: Pattern) -> None:
        self._matcher.bind(pattern, pattern.text)

    def unbind(self, pattern: Pattern) -> None:
        self._matcher.unbind(pattern, pattern.text)


class WithLiterals:
    """A structure for the patterns with wildcards and a dict for those without."""

    def __init__(self, wild: Structure) -> None:
        self._wild = wild
        self._literal: set[str] = set()

    def bind(self, pattern: Pattern) -> None:
        if pattern.literal:
            self._literal.add(pattern.text)
        else:
            self._wild.bind(pattern)

    def unbind(self, pattern: Pattern) -> None:
        if pattern.literal:
            self._literal.remove(pattern.text)
        else:
            self._wild.unbind(pattern)

    def match(self, key: str) -> Iterable[str]:
        found = self._wild.match(key)
        return [*found, key] if key in self._literal else found


STRUCTURES: Final[dict[str, Callable[[], Structure]]] = {
    "scan of all patterns": Scan,
    "regex per pattern": Regexes,
    "trie, set of nodes": Trie,
    "lazy subset automaton": Automaton,
    "bits of one integer": Bits,
    "ours, cache=0": partial(Ours, 0),
    "ours": Ours,
}

PATIENCE: Final = 10.0

BUDGET: Final = 0.5
"""Seconds that the keys of one round may take: a slow structure is timed on fewer."""


class Row(NamedTuple):
    """A structure with the patterns of a workload and as many of its keys as its budget allows, and what it costs."""

    name: str
    structure: Structure
    keys: Sequence[str]
    memory: float
    bind: Contestant
    unbind: Contestant
    first: Contestant
    seen: Contestant

    def measure(self) -> None:
        """One round; binding and unbinding makes what remembers keys or states forget them."""
        gc.collect()
        for row, call, arguments in (
            (self.bind, self.structure.bind, OTHERS),
            (self.unbind, self.structure.unbind, OTHERS),
            (self.first, self.structure.match, self.keys),
            (self.seen, self.structure.match, self.keys),
        ):
            row.costs.append(microseconds_per(call, arguments))


OTHERS: Final = [Pattern.of_binding_key(f"no.*.such.{number}") for number in range(1_000)]


def structures(quick: bool) -> None:
    """Print what each structure costs on two workloads and two traps."""
    for topics in (dense_1k(20_000), sparse_100k(20_000), state_trap(14), state_trap(18), many_hashes()):
        if quick and topics.name == "sparse-100k":
            continue
        print(f"\nstructures on {topics.name}: {topics.about}")
        print(f"  {'':<24}{'first us':>12}{'seen us':>12}{'bind us':>9}{'unbind us':>11}{'RSS +MB':>9}{'keys':>8}")
        rows = list(filter(None, [_row(name, topics) for name in STRUCTURES]))
        for _ in range(3 if quick else 9):
            for row in rows:
                row.measure()
        for row in rows:
            first, seen, bind, unbind = (it.cost or 0 for it in (row.first, row.seen, row.bind, row.unbind))
            figures = f"{first:>12,.2f}{seen:>12,.2f}{bind:>9.1f}{unbind:>11.1f}{row.memory:>9.1f}"
            print(f"  {row.name:<24}{figures}{len(row.keys):>8,}")


def _row(name: str, topics: Topics) -> Row | None:
    _check(STRUCTURES[name], topics)
    if not _is_in_time(_first_key, name, topics):
        print(f"  {name:<24}  no answer to the first key in {PATIENCE:.0f} s")
        return None
    structure = _build(name, _patterns(topics))
    keys = _choose_keys(structure, topics.keys)
    return Row(name, structure, keys, in_child(_memory, name, topics), *(Contestant(name, None) for _ in range(4)))


def _patterns(topics: Topics) -> list[Pattern]:
    return [Pattern.of_binding_key(text) for text in topics.patterns]


def _build(name: str, patterns: Sequence[Pattern]) -> Structure:
    make = STRUCTURES[name]
    structure = make() if name.startswith("ours") else WithLiterals(make())
    for pattern in patterns:
        structure.bind(pattern)
    return structure


def _first_key(name: str, topics: Topics) -> None:
    _build(name, _patterns(topics)).match(topics.keys[0])


def _memory(name: str, topics: Topics) -> float:
    patterns = _patterns(topics)
    before = resident_mb()
    structure = _build(name, patterns)
    for key in topics.keys[:2]:
        structure.match(key)
    return resident_mb() - before


def _choose_keys(structure: Structure, keys: Sequence[str]) -> Sequence[str]:
    number = 2
    microseconds_per(structure.match, keys[:number])  # what is built on first use
    while number < len(keys):
        seconds, _ = time_call(partial(microseconds_per, structure.match, keys[:number]))
        if seconds > BUDGET / 4:
            break
        number *= 2
    return keys[:number]


def _is_in_time(work: Callable[[str, Topics], None], name: str, topics: Topics) -> bool:
    child = get_context("spawn").Process(target=work, args=(name, topics))
    child.start()
    child.join(PATIENCE + 60 * (len(topics.patterns) > 50_000))  # a regex takes long to build
    if child.is_alive():
        child.kill()
        child.join()
        return False
    return True


def _check(make: Callable[[], Structure], topics: Topics) -> None:
    chance = random.Random(0)
    texts = [*chance.sample(topics.patterns, min(60, len(topics.patterns))), *ODD]
    patterns = [Pattern.of_binding_key(text) for text in dict.fromkeys(texts) if text.count("#") < 5]
    words = ["", "x", *{word for pattern in patterns[:20] for word in pattern.words if isinstance(word, str)}]
    structure = make()
    for pattern in patterns:
        structure.bind(pattern)
    for pattern in patterns[::3]:
        structure.unbind(pattern)
    left = [pattern for place, pattern in enumerate(patterns) if place % 3]
    for _ in range(300):
        key = ".".join(chance.choices(words, k=chance.randint(0, 7)))
        assert set(structure.match(key)) == {pattern.text for pattern in left if pattern.matches(key)}, key


ODD: Final = ("#", "*", "#.#", "*.#.*", "#.*", "a.#.#.b", "#.x.#", "x.*", ".#", "#.", "*..#", "#.x.#.x", "x.x.#")
"""Patterns at the edges: of what counts as a word, and of how few a ``#`` stands for."""
