"""Partitioners of your own, named in text: ``python:package.module:function``.

Parsing a text, which may come from anywhere, never imports the named module, so it runs no code. The owner
of the process asks for that, with `PythonFunction.imported` or one of the functions that call it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
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


_IMPORTED: Final = dict[str, tuple[Path, int] | None]()
"""Modules of functions, with those of their owner's that these import -> their file, and when that was changed last
before the import, in nanoseconds since 1970; None without a file."""


@contextmanager
def undo_imports() -> Iterator[None]:
    """Forget the modules that are imported for functions in the block, if it raises: else they stayed as they are."""
    before = frozenset(sys.modules)
    try:
        yield
    except BaseException:
        for module in _IMPORTED.keys() - before:
            sys.modules.pop(module, None)
            del _IMPORTED[module]
        raise


def find_changed_files(partitioners: Iterable[Partitioner], folder: str) -> list[Path]:
    """Return the files of functions' modules, and of those beside them, that are not as they were imported.

    ``folder`` is that from which they were imported.
    """
    modules = {each.name.partition(":")[0] for each in partitioners if isinstance(each, PythonFunction)}
    known = [_IMPORTED[name] for module in modules for name in _find_own(_IMPORTED, module, folder)]
    return sorted({each[0] for each in known if each is not None and _find_time(each[0]) != each[1]})


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
        try:
            function = attrgetter(attribute)(import_module(module))
        except (Exception, SystemExit) as error:  # the code of a module may raise anything
            where = f"; searched installed packages and {folder}" if isinstance(error, ModuleNotFoundError) else ""
            raise InputError(f"{self.text} cannot be imported: {type(error).__name__}: {error}{where}") from error
        finally:
            for name in _find_own(sys.modules.keys() - _IMPORTED.keys(), module, folder):
                file = getattr(sys.modules.get(name), "__file__", None)
                _IMPORTED[name] = None if file is None else (Path(file), _find_time(Path(file)))
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
    own = {module.partition(".")[0]: True}
    for name in names:
        package = name.partition(".")[0]
        if package not in own:
            found = sys.modules.get(package)
            paths = [getattr(found, "__file__", None) or "", *getattr(found, "__path__", ())]  # a namespace has no file
            near = [Path(path) for path in paths if folder and path.startswith(folder)]
            own[package] = any(path.parent in (Path(folder), Path(folder, package)) for path in near)
        if own[package]:
            yield name


def _find_time(path: Path) -> int:
    """Return when a file was changed last, in nanoseconds since 1970; -1 if it is gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


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
