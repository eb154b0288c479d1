"""Where an app sends tasks with options of their own: entries of beat's schedule, and calls in its code.

The code is read, not run: of the modules that the app has imported, those of its own packages. A call is found if its
task and its options are literal, or names of constants of the module; what only a run can show is left out.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from bindings.sources.applications.celery_sending import Call

ROUTING: Final = frozenset({"queue", "exchange", "exchange_type", "routing_key", "priority"})
"""Options of a call that decide where its message goes, and how urgent it is there."""
SENDERS: Final = ("apply_async", "send_task", "signature", "subtask", ".set(")
"""Words of the source of a module that sends tasks with options."""
SIGNATURES: Final = frozenset({"s", "si", "signature", "subtask"})
MAX_SOURCE_BYTES: Final = 1_000_000
MODULES_READ: Final = 5_000
"""Maximum number of modules whose source is read."""
MAX_POSITIONAL: Final = 3
"""Maximum number of arguments by position of a call that is read: task, ``args``, ``kwargs``."""
UNKNOWN: Final = object()
"""The value of an expression that only a run can show."""


def find_scheduled(app: Any) -> Iterator[Call]:
    """Yield the tasks of beat's schedule, with the options of their entries."""
    for name, entry in (app.conf.beat_schedule or {}).items():
        get = entry.get if isinstance(entry, Mapping) else partial(getattr, entry)
        task, options = get("task", None), get("options", None) or {}
        if isinstance(task, str):
            args, kwargs = get("args", None) or (), get("kwargs", None) or {}
            literal = isinstance(args, list | tuple) and isinstance(kwargs, Mapping)  # beat evaluates functions
            given = (tuple(args), kwargs) if literal else ((), {})
            yield Call(task, options, *given, f"of beat's entry '{name}'")


def find_calls(app: Any) -> Iterator[Call]:
    """Yield the calls in the code of an app that name a task and literal options, once for each module and text."""
    for module, text in _sources(app):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # it was imported: its source has changed since
        yield from _CallReader(app, module).read(tree)


def _sources(app: Any) -> Iterator[tuple[ModuleType, str]]:
    """Yield the modules of the packages that define tasks, with their source, if they may send tasks with options."""
    names = {task.__module__ for name, task in app.tasks.items() if not name.startswith("celery.")}
    names |= {str(name) for setting in (app.conf.include, app.conf.imports) for name in setting or ()}
    packages = {name.partition(".")[0] for name in names} - {"celery", "builtins"}
    found = sorted(name for name in list(sys.modules) if name.partition(".")[0] in packages)
    for name in found[:MODULES_READ]:
        module = sys.modules.get(name)
        path = getattr(module, "__file__", None)
        if not (isinstance(module, ModuleType) and isinstance(path, str) and path.endswith(".py")):
            continue
        try:
            data = Path(path).read_bytes()
            text = data.decode() if len(data) <= MAX_SOURCE_BYTES else ""
        except (OSError, ValueError):
            continue
        if any(word in text for word in SENDERS):
            yield module, text


class _CallReader:
    """Reads the calls in the source of one module."""

    def __init__(self, app: Any, module: ModuleType) -> None:
        self._app = app
        self._module = module
        self._local: list[Mapping[str, object]] = []
        """What functions around an expression bind: what they import, and `UNKNOWN` for all else."""
        self._nested: set[ast.Call] = set()
        """Calls that are a part of one that was read, as ``.s()`` is of ``.s().set(...)``."""

    def read(self, tree: ast.AST) -> Iterator[Call]:
        """Yield the calls below a node, from the outermost of a chain."""
        is_function = isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if is_function:
            self._local.append(_bound_in(tree))
        if isinstance(tree, ast.Call) and tree not in self._nested:
            found = self._read_call(tree)
            if found is not None and (found.options or found.by_name or found.task not in self._app.tasks):
                place = f"at {Path(str(self._module.__file__)).name}:{tree.lineno}"
                yield found._replace(options=dict(found.options), place=place)
        for node in ast.iter_child_nodes(tree):
            yield from self.read(node)
        if is_function:
            self._local.pop()

    def _read_call(self, node: ast.Call) -> Call | None:
        """Return the task that a call sends or makes a signature of; None for other calls and unknown options."""
        if any(keyword.arg is None for keyword in node.keywords):
            return None  # **options
        method, base = (node.func.attr, node.func.value) if isinstance(node.func, ast.Attribute) else (None, None)
        inner: Call | None = None
        if isinstance(base, ast.Call):
            inner = self._read_call(base)
            if inner is None or method not in ("set", "apply_async", "delay", "clone"):
                return None
            self._nested.add(base)
        elif method in ("send_task", "signature") and self._is_app(base):
            inner = self._named(node)
        elif method in SIGNATURES or method == "apply_async":
            inner = self._of_task(self._value(base))
        elif isinstance(node.func, ast.Name) and getattr(self._value(node.func), "__module__", "") == "celery.canvas":
            inner = self._named(node) if getattr(self._value(node.func), "__name__", "") == "signature" else None
        if inner is None:
            return None
        options = {} if method in ("s", "si", "delay") else self._options(node)
        if options is None:
            return None
        args, kwargs = self._arguments(node, method)
        return inner._replace(
            options={**inner.options, **options}, args=args or inner.args, kwargs=kwargs or inner.kwargs
        )

    def _named(self, node: ast.Call) -> Call | None:
        """Return the task that is named by the first argument of ``send_task`` and ``signature``."""
        name = self._value(node.args[0]) if node.args else UNKNOWN
        by_name = isinstance(node.func, ast.Attribute) and node.func.attr == "send_task"
        return Call(name, by_name=by_name) if isinstance(name, str) else self._of_task(name)

    def _of_task(self, value: object) -> Call | None:
        from celery.app.task import Task

        return Call(value.name) if isinstance(value, Task) and value.name in self._app.tasks else None

    def _is_app(self, node: ast.expr | None) -> bool:
        """Return whether an expression is the app: by its name, or as ``self.app`` and ``current_app``."""
        from celery import Celery

        if isinstance(node, ast.Attribute) and node.attr == "app" and isinstance(node.value, ast.Name):
            return node.value.id == "self" or self._value(node) is self._app
        value = self._value(node)
        return isinstance(value, Celery) and (
            value is self._app or (isinstance(node, ast.Name) and node.id == "current_app")
        )

    def _options(self, node: ast.Call) -> dict[str, Any] | None:
        """Return the options of a call that decide where its message goes; None if one is not known."""
        found: dict[str, Any] = {}
        if len(node.args) > MAX_POSITIONAL:
            return None
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        options = given.pop("options", None)
        if options is not None:
            names: list[Any] = (
                [self._value(key) for key in options.keys] if isinstance(options, ast.Dict) else [UNKNOWN]
            )
            if not (isinstance(options, ast.Dict) and all(isinstance(name, str) for name in names)):
                return None
            given |= dict(zip(names, options.values, strict=True))
        for name, expression in given.items():
            if name in ROUTING:
                value = self._value(expression)
                if value is UNKNOWN:
                    return None
                found[str(name)] = value
        return found

    def _arguments(self, node: ast.Call, method: str | None) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return the arguments of the task, as far as they are literal: router functions may look at them."""
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if method in ("s", "si", "delay"):
            kwargs = {str(name): self._value(value) for name, value in given.items()}
            return tuple(self._value(each) for each in node.args), kwargs
        rest = node.args[1:] if method in ("send_task", None) or self._is_named(node) else node.args
        args = self._value(given.get("args", rest[0] if rest else None))
        kwargs = self._value(given.get("kwargs", rest[1] if len(rest) > 1 else None))
        return tuple(args) if isinstance(args, list | tuple) else (), kwargs if isinstance(kwargs, dict) else {}

    def _is_named(self, node: ast.Call) -> bool:
        return bool(node.args) and isinstance(self._value(node.args[0]), str)

    def _value(self, node: ast.AST | None) -> Any:
        """Return the value of a literal, of a constant of the module, or of what it has imported; else UNKNOWN.

        No code runs for it: attributes are those of modules only, and no object but a proxy of Celery's is asked.
        """
        from celery.local import Proxy

        if node is None:
            return UNKNOWN
        if isinstance(node, ast.Name):
            local = next((names for names in reversed(self._local) if node.id in names), None)
            found: Any = vars(self._module).get(node.id, UNKNOWN) if local is None else local[node.id]
        elif isinstance(node, ast.Attribute):
            base = self._value(node.value)
            found = vars(base).get(node.attr, UNKNOWN) if isinstance(base, ModuleType) else UNKNOWN
        else:
            try:
                return ast.literal_eval(node)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return UNKNOWN
        return found._get_current_object() if issubclass(type(found), Proxy) else found


def _bound_in(function: ast.AST) -> dict[str, object]:
    """Return the names that a function binds, of its parameters and inside it, with the objects that it imports."""
    bound: dict[str, object] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            bound[node.arg] = UNKNOWN
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound[node.id] = UNKNOWN
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            module = sys.modules.get(node.module)
            for each in node.names:
                found = sys.modules.get(f"{node.module}.{each.name}", UNKNOWN)
                bound[each.asname or each.name] = vars(module).get(each.name, found) if module else UNKNOWN
        elif isinstance(node, ast.Import):
            for each in node.names:
                name = each.name if each.asname else each.name.partition(".")[0]
                bound[each.asname or name] = sys.modules.get(name, UNKNOWN)
    return bound
