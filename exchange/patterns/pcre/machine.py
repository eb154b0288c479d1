"""Match an expression by backtracking, as PCRE does, but remember failures.

There are no back references, so whether the rest of an expression matches from a position does not depend on how that
position was reached. So each pair of instruction and position (a state) fails at most once, and the number of steps is
at most proportional to length of expression x length of name. PCRE remembers no failures, and gives up after 10,000,000
steps (50,000 since RabbitMQ 4.3.2); for RabbitMQ, the name then does not match. The number of steps that PCRE would
take, its cost, is counted here, too: a failure is remembered with its cost, which is added each time that PCRE would
repeat it. If a match may cost PCRE too much, there is no answer.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from exchange.patterns.pcre.nodes import (
    Assertion,
    Atomic,
    Branches,
    Bytes,
    Node,
    Repeat,
    Sequence,
    UnknownMatch,
    can_be_empty,
)

INSTRUCTIONS: Final = 2_000
"""Maximum number of instructions of a program."""
MAX_STEPS: Final = 100_000
"""Maximum number of steps taken here for one name; beyond it there is no answer."""
COST: Final = 20_000
"""Maximum cost of a match that is certain. PCRE's own count of its steps is lower than this cost."""
PENDING: Final = -1
"""In place of the cost of a failure: the state is being tried, or on the stack has not been tried yet."""


class Instruction(NamedTuple):
    """An instruction of a program: ``to`` is the next one, ``other`` the one that is tried if that fails."""

    operation: Literal["byte", "assert", "split", "look", "atomic", "end"]
    to: int = 0
    other: int = 0
    mask: int = 0
    sign: str = ""
    widths: tuple[int, ...] | None = None
    bodies: tuple[int, ...] = ()


class _GaveUp(Exception):
    """The maximum number of steps is reached."""


class Machine:
    """A compiled expression."""

    __slots__ = ("_program", "_start")

    def __init__(self, node: Node) -> None:
        compiler = _Compiler()
        self._start: Final = compiler.compile(node, compiler.add(Instruction("end")))
        self._program: Final = tuple(compiler.program)

    def is_found_in(self, data: bytes) -> bool | None:
        """Return whether the expression is found in the bytes; None if PCRE may give up before."""
        run = _Run(self._program, data)
        try:
            found = any(run.end_from(self._start, at) >= 0 for at in range(len(data) + 1))
        except _GaveUp:
            return None
        # A name for which PCRE gives up does not match: so the answer "no" is right whatever it costs.
        return None if found and (run.is_cut or run.cost > COST) else found


class _Compiler:
    def __init__(self) -> None:
        self.program: Final[list[Instruction]] = []
        self._atomic = 0

    def add(self, instruction: Instruction) -> int:
        """Append an instruction and return its index."""
        if len(self.program) >= INSTRUCTIONS:
            raise UnknownMatch("it is too large")
        self.program.append(instruction)
        return len(self.program) - 1

    def compile(self, node: Node, then: int) -> int:
        """Append the instructions of a node that goes on at ``then``, and return where they begin."""
        if isinstance(node, Bytes):
            return self.add(Instruction("byte", then, mask=node.mask))
        if isinstance(node, Assertion):
            return self.add(Instruction("assert", then, mask=node.word, sign=node.sign))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                then = self.compile(part, then)
            return then
        if isinstance(node, Branches):
            start = self.compile(node.branches[-1], then)
            for branch in reversed(node.branches[:-1]):
                start = self.add(Instruction("split", self.compile(branch, then), start))
            return start
        if isinstance(node, Repeat):
            return self._repeat(node, then)
        if isinstance(node, Atomic):
            self._atomic += 1
            body = self.compile(node.part, self.add(Instruction("end")))
            self._atomic -= 1
            return self.add(Instruction("atomic", then, bodies=(body,)))
        end = self.add(Instruction("end"))
        if node.widths is None:
            bodies: tuple[int, ...] = (self.compile(node.part, end),)
        else:
            bodies = tuple(self.compile(branch, end) for branch in node.part.branches)
        return self.add(
            Instruction("look", then, sign="!" if node.negative else "=", widths=node.widths, bodies=bodies)
        )

    def _repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            # After a round that matched nothing PCRE leaves the loop; the machine fails there and leaves it one round
            # before. That changes only which match is first, which matters in atomic groups only.
            if self._atomic and can_be_empty(node.part):
                raise UnknownMatch("an atomic group repeats what can be empty")
            loop = self.add(Instruction("split"))
            body = self.compile(node.part, loop)
            ways = (body, then) if node.greedy else (then, body)
            self.program[loop] = Instruction("split", *ways)
            start = loop
        else:
            start = then
            for _ in range(node.most - node.least):
                body = self.compile(node.part, start)
                start = self.add(Instruction("split", *((body, then) if node.greedy else (then, body))))
        for _ in range(node.least):
            start = self.compile(node.part, start)
        return start


class _Run:
    """A run of a program on one name."""

    def __init__(self, program: tuple[Instruction, ...], data: bytes) -> None:
        self._program: Final = program
        self._data: Final = data
        self._failed: Final[dict[tuple[int, int], int]] = {}  # state -> cost of its failure, or PENDING
        self._steps = 0
        self.cost = 0
        self.is_cut = False
        """Whether a loop came back to a state without having consumed a byte: what that costs PCRE is not counted."""

    def end_from(self, index: int, at: int) -> int:
        """Return the end of the first match of the program at a position, -1 if there is none."""
        # The stack has states to try, with PENDING, and marks: a state that was tried, with the cost before the try.
        # When a mark is popped, everything that its state led to has failed; the failure's cost is the difference.
        waiting: list[tuple[int, int, int]] = [(index, at, PENDING)]
        while waiting:
            index, at, cost_before = waiting.pop()
            if cost_before != PENDING:
                self._failed[index, at] = self.cost - cost_before
                continue
            end = self._advance(index, at, waiting)
            if end >= 0:
                # The states whose marks are left did not fail: a later run from here must not find them PENDING.
                for index, at, cost_before in waiting:
                    if cost_before != PENDING:
                        del self._failed[index, at]
                return end
        return -1

    def _advance(self, index: int, at: int, waiting: list[tuple[int, int, int]]) -> int:
        """Run from a state until it matches or fails; return the end, or -1."""
        while True:
            self._steps += 1
            self.cost += 1
            if self._steps > MAX_STEPS:
                raise _GaveUp
            operation, to, other, mask, sign, widths, bodies = self._program[index]
            if operation == "byte":
                if at == len(self._data) or not mask >> self._data[at] & 1:
                    return -1
                at += 1
            elif operation == "split":
                known = self._failed.get((index, at))
                if known is not None:
                    if known == PENDING:
                        self.is_cut = True
                    else:
                        self.cost += known
                    return -1
                self._failed[index, at] = PENDING
                waiting.append((index, at, self.cost))
                waiting.append((other, at, PENDING))
            elif operation == "assert":
                if not _holds(sign, self._data, at, mask):
                    return -1
            elif operation == "atomic":
                at = self.end_from(bodies[0], at)
                if at < 0:
                    return -1
            elif operation == "look":
                starts = [at] if widths is None else [at - width for width in widths]
                pairs = zip(bodies, starts, strict=True)
                if any(start >= 0 and self.end_from(body, start) >= 0 for body, start in pairs) == (sign == "!"):
                    return -1
            else:
                return at
            index = to


def _holds(sign: str, data: bytes, at: int, word: int) -> bool:
    if sign in (r"\b", r"\B"):
        before = at > 0 and bool(word >> data[at - 1] & 1)
        after = at < len(data) and bool(word >> data[at] & 1)
        return (before != after) == (sign == r"\b")
    if sign == "^":
        return at == 0
    if sign == "^m":
        return at == 0 or (data[at - 1] == 10 and at < len(data))
    if at == len(data):
        return True
    return data[at] == 10 and (sign == "$m" or (sign == "$" and at + 1 == len(data)))
