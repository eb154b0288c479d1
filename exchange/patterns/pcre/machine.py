"""Match an expression by going back and trying again, as PCRE does, but remember what failed.

Whether the rest of an expression matches from a position on does not depend on how that position was reached, since
there are no back references. So each pair of instruction and position fails once, and what failed is not tried again:
the work is linear in expression times name. PCRE remembers nothing and gives up after 10,000,000 steps (since RabbitMQ
4.3.2, 50,000), and then RabbitMQ takes the name for one that does not match. What PCRE would have spent is known here
all the same: a failure is remembered with its cost, which is added each time it would be repeated. A match that might
have cost too much is not known.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from exchange.patterns.pcre.nodes import Assertion, Atomic, Branches, Bytes, Node, Repeat, Sequence, Unknown

__all__ = ["COST", "Machine"]

INSTRUCTIONS: Final = 2_000
"""Maximum length of a program; a longer one is not understood."""
STEPS: Final = 100_000
"""Maximum number of steps taken here for one name; past it, the answer is not known."""
COST: Final = 20_000
"""Maximum number of steps that PCRE may need for a match that is taken for certain; what it counts is less."""
PENDING: Final = -1


class Instruction(NamedTuple):
    """A step of a program. ``to`` is where it goes on, ``other`` what is tried when that fails."""

    operation: Literal["byte", "assert", "split", "look", "atomic", "end"]
    to: int = 0
    other: int = 0
    mask: int = 0
    sign: str = ""
    widths: tuple[int, ...] | None = None
    bodies: tuple[int, ...] = ()


class _GaveUp(Exception):
    """The steps are used up."""


class Machine:
    """An expression, compiled."""

    __slots__ = ("_program", "_start")

    def __init__(self, node: Node) -> None:
        compiler = _Compiler()
        self._start: Final = compiler.compile(node, compiler.add(Instruction("end")))
        self._program: Final = tuple(compiler.program)

    def found_in(self, data: bytes) -> bool | None:
        """Return whether the expression is found in the bytes; None when PCRE may give up before it is."""
        run = _Run(self._program, data)
        try:
            found = any(run.end_from(self._start, at) >= 0 for at in range(len(data) + 1))
        except _GaveUp:
            return None
        # When PCRE gives up the name does not match, so that "no" needs no cost.
        return None if found and (run.is_cut or run.cost > COST) else found


class _Compiler:
    def __init__(self) -> None:
        self.program: Final[list[Instruction]] = []
        self._atomic = 0

    def add(self, instruction: Instruction) -> int:
        """Append an instruction and return its place."""
        if len(self.program) >= INSTRUCTIONS:
            raise Unknown("it is too large")
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
            # PCRE leaves a loop that matched nothing, the machine fails there and leaves it one round before. That
            # makes no difference but to which match comes first, and only an atomic group asks for that.
            if self._atomic and _can_be_empty(node.part):
                raise Unknown("an atomic group repeats what can be empty")
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


def _can_be_empty(node: Node) -> bool:
    if isinstance(node, Bytes):
        return False
    if isinstance(node, Sequence):
        return all(map(_can_be_empty, node.parts))
    if isinstance(node, Branches):
        return any(map(_can_be_empty, node.branches))
    if isinstance(node, Repeat):
        return node.least == 0 or _can_be_empty(node.part)
    return _can_be_empty(node.part) if isinstance(node, Atomic) else True


class _Run:
    """A program on one name."""

    def __init__(self, program: tuple[Instruction, ...], data: bytes) -> None:
        self._program: Final = program
        self._data: Final = data
        self._failed: Final[dict[tuple[int, int], int]] = {}
        self._steps = 0
        self.cost = 0
        self.is_cut = False
        """Whether a loop has come back without having moved: what PCRE spends there is not counted."""

    def end_from(self, place: int, at: int) -> int:
        """Return where the first match of the program at a position ends, -1 when there is none."""
        # Each entry is a way still to be tried; those below a mark, ("failed", its state), are not of its state.
        waiting: list[tuple[int, int, int]] = [(place, at, PENDING)]
        while waiting:
            place, at, cost_before = waiting.pop()
            if cost_before != PENDING:
                self._failed[place, at] = self.cost - cost_before
                continue
            end = self._advance(place, at, waiting)
            if end >= 0:
                for place, at, cost_before in waiting:
                    if cost_before != PENDING:
                        del self._failed[place, at]
                return end
        return -1

    def _advance(self, place: int, at: int, waiting: list[tuple[int, int, int]]) -> int:
        """Go on from a state until it matches or fails; return the end, or -1."""
        while True:
            self._steps += 1
            self.cost += 1
            if self._steps > STEPS:
                raise _GaveUp
            operation, to, other, mask, sign, widths, bodies = self._program[place]
            if operation == "byte":
                if at == len(self._data) or not mask >> self._data[at] & 1:
                    return -1
                at += 1
            elif operation == "split":
                known = self._failed.get((place, at))
                if known is not None:
                    if known == PENDING:
                        self.is_cut = True
                    else:
                        self.cost += known
                    return -1
                self._failed[place, at] = PENDING
                waiting.append((place, at, self.cost))
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
            place = to


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
