"""Partitioners of your own, named in text: ``python:package.module:function``.

Parsing a text, which may come from anywhere, never imports the named module, so it runs no code. The owner
of the process asks for that, with `PythonFunction.imported` or one of the functions that call it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from operator import attrgetter, index
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

from exchange.errors import InputError
from exchange.partition.partitioner import (
    UNKNOWN,
    Choice,
    Inputs,
    Key,
    Partitioner,
    PartitionRequest,
    Strategy,
    Undecided,
)
from exchange.partition.partitions import Partitions

PREFIX: Final = "python:"
"""Prefix of the names of these strategies."""

Function = Callable[..., Any]
"""A function of a `PartitionRequest`, and of the parameters in its text as keyword arguments, which are texts.

It returns the id of a partition, or a tuple of the id and any value, which it gets as memory with the topic's next
record.
"""


_IMPORTED: Final = set[str]()
"""Modules that were imported for a function first, with those of its owner's that these have imported."""


@contextmanager
def undo_imports() -> Iterator[None]:
    """Forget the modules that are imported for functions in the block, if it raises: else they stayed as they are."""
    before = frozenset(_IMPORTED)
    try:
        yield
    except BaseException:
        for module in _IMPORTED - before:
            sys.modules.pop(module, None)
        _IMPORTED.intersection_update(before)
        raise


class PartitionerFailed(InputError):
    """A partitioner of the user's own raised an exception, or returned a value that is no partition."""


@dataclass(frozen=True, slots=True)
class PythonFunction(Partitioner):
    """A function that chooses partitions. Equal if name and parameters are.

    >>> def by_length(request):
    ...     return len(request.value_bytes or b"") % request.partitions.count
    >>> partitioner = PythonFunction("shop.partitions:by_length", function=by_length)
    >>> request = PartitionRequest("orders", None, b"four", Partitions.from_count(3))
    >>> partitioner.answer(request)[0].partition
    1
    """

    name: str
    """``package.module:function``; the function may be an attribute of a class, ``module:Class.method``."""
    parameters: tuple[tuple[str, str], ...] = ()
    function: Function | None = field(default=None, compare=False, repr=False)
    """None as long as it is not imported: then each choice raises InputError."""

    reads_record: ClassVar[bool] = True

    @property
    def text(self) -> str:
        """The name as in configuration."""
        return f"{PREFIX}{self.name}"

    def imported(self, folder: str = "") -> PythonFunction:
        """Return this partitioner with its function; importing a module runs its code.

        ``folder`` is searched after all installed packages. Raises InputError, which names what is missing or wrong.
        """
        if self.function is not None:
            return self
        module, _, attribute = self.name.partition(":")
        if folder and folder not in sys.path:
            sys.path.append(folder)
        before = frozenset(sys.modules)
        try:
            function = attrgetter(attribute)(import_module(module))
        except (Exception, SystemExit) as error:  # the code of a module may raise anything
            where = f"; searched installed packages and {folder}" if isinstance(error, ModuleNotFoundError) else ""
            raise InputError(f"{self.text} cannot be imported: {type(error).__name__}: {error}{where}") from error
        finally:
            _IMPORTED.update(_find_own(sys.modules.keys() - before, module, folder))
        if not callable(function):
            raise InputError(f"{self.text} is no function but {type(function).__name__}")
        return replace(self, function=function)

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        return self.answer(PartitionRequest("", key, UNKNOWN, partitions))[0]

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        return self.answer(PartitionRequest("", key, UNKNOWN, partitions, inputs, memory))

    def answer(self, request: PartitionRequest) -> tuple[Choice, Any]:
        """Call the function. Raises PartitionerFailed if it fails; InputError if it is not imported."""
        if self.function is None:
            raise InputError(f"{self.text} is code, which is imported only where its owner allows it")
        try:
            answer = self.function(request, **dict(self.parameters))
        except Undecided:
            return Choice(None, None, f"{self.text}, by more than is known here"), None
        except (Exception, SystemExit) as error:  # whatever the function does must not end the process
            raise PartitionerFailed(f"{self.text} raised {type(error).__name__}: {error}") from error
        partition, memory = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, request.kept)
        return Choice(self._check(partition, request.partitions), None, self.text), memory

    def _check(self, partition: Any, partitions: Partitions) -> int:
        if isinstance(partition, Coroutine):
            partition.close()  # else Python warns of a coroutine that was never awaited
        try:
            number = index(partition)
        except TypeError:
            kind = type(partition).__name__
            raise PartitionerFailed(f"{self.text} returned {kind}, not the number of a partition") from None
        if isinstance(partition, bool) or number not in partitions:
            ids = [each.id for each in partitions]
            raise PartitionerFailed(f"{self.text} returned {partition!r}; partitions are {min(ids)} to {max(ids)}")
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        # By its name, so that processes of one owner share it; the process that pickled it had imported it.
        return _rebuild, (self.name, self.parameters, self.function is not None)


def _find_own(names: Collection[str], module: str, folder: str) -> Iterator[str]:
    """Yield those of some modules that are of the module's package, or were found in the folder itself.

    Others stay imported: libraries with code in C can be imported once only.
    """
    for name in names:
        package = name.partition(".")[0]
        file = getattr(sys.modules.get(package), "__file__", None) or ""
        is_there = bool(folder) and Path(file).parent in (Path(folder), Path(folder, package))
        if is_there or package == module.partition(".")[0]:
            yield name


def _rebuild(name: str, parameters: tuple[tuple[str, str], ...], is_imported: bool) -> PythonFunction:
    partitioner = PythonFunction(name, parameters)
    return partitioner.imported() if is_imported else partitioner


STRATEGY: Final = Strategy(
    f"{PREFIX}PACKAGE.MODULE:FUNCTION",
    PythonFunction,
    "kafka-clients: partitioner.class, a Partitioner of your own",
    "whatever the function promises",
    "its code must be installed wherever partitions are chosen, and allowed to run: --allow-python",
    parameters=MappingProxyType({}),
)
"""Description of these strategies, as of those in the table `STRATEGIES`."""
