"""Read TOML files within limits, since Python's parser is recursive, and quadratic in the parts of a key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from bindings.sources.files import open_file
from bindings.sources.language.errors import LanguageError
from bindings.sources.toml_places import TOKEN
from exchange.errors import InputError, name_os_errors
from exchange.limits import CONFIG_BYTES, CONFIG_KEY_PARTS, INTEGER_DIGITS, NESTING
from exchange.text.faults import find_position

PLACE: Final = re.compile(r"line ([0-9]+), column ([0-9]+)\)$")
NAME: Final = re.compile(r"\(('[^']*'(?:, '[^']*')*),?\)")
"""A name of a table, as Python's parser quotes it."""
DIGITS: Final = re.compile(rf"[0-9](?:_?[0-9]){{{INTEGER_DIGITS}}}")


def read_toml(path: Path, parse_float: Callable[[str], float | Decimal] = float) -> dict[str, Any]:
    """Return the content of a file of TOML; ``parse_float`` reads numbers with a point. Raises InputError."""
    with name_os_errors(path), open_file(path) as file:
        data = file.read(CONFIG_BYTES + 1)
    if len(data) > CONFIG_BYTES:
        raise InputError(f"{path}: too large: a configuration has {CONFIG_BYTES >> 20} MiB at most")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: not TOML: line {line} is not UTF-8; save it as UTF-8") from None
    _check_shape(text, path)
    try:
        values = tomllib.loads(text, parse_float=parse_float)
    except tomllib.TOMLDecodeError as error:
        raise _locate(error, str(path), text) from None
    except InvalidOperation:
        raise InputError(f"{path}: a number has an exponent that is out of range; write a smaller one") from None
    except ValueError:  # of int()
        digits = DIGITS.search(text)
        where = _position(text, digits.start()) if digits else ""
        raise InputError(f"{path}: a number has more than {INTEGER_DIGITS:,} digits{where}; shorten it") from None
    if _has_long_number(values):
        raise InputError(f"{path}: a number has more than {INTEGER_DIGITS:,} digits in decimal; shorten it")
    return values


def _locate(error: tomllib.TOMLDecodeError, name: str, text: str) -> InputError:
    """Return the error with its line and a caret; Python states the position at the end of its text."""
    reason, _, where = str(error).rpartition(" (at ")
    reason = NAME.sub(lambda match: f"[{match[1].replace(chr(39), '').replace(', ', '.')}]", reason)
    text = text.replace("\r\n", "\n")  # as Python's parser counts
    found = PLACE.match(where)
    if found is not None:
        position = find_position(text, int(found[1]), int(found[2]))
    elif where == "end of document)":
        position = len(text.rstrip("\n"))
    else:
        return InputError(f"{name}: not TOML: {error}")
    return LanguageError.at(position, f"not TOML: {reason}", name, text)


def _has_long_number(value: object) -> bool:
    """Return whether a number in hexadecimal or another base is longer in decimal than any that is read."""
    if isinstance(value, dict):
        return any(map(_has_long_number, value.values()))
    if isinstance(value, list):
        return any(map(_has_long_number, value))
    return isinstance(value, int) and abs(value) >= 10**INTEGER_DIGITS


def _check_shape(text: str, path: Path) -> None:
    """Raise InputError for keys with too many parts and for values that are nested too deeply."""
    dots = depth = 0
    for token in TOKEN.finditer(text):
        match token[0]:
            case ".":
                dots += 1
                if dots >= CONFIG_KEY_PARTS:
                    where = _position(text, token.start())
                    raise InputError(f"{path}: a key has more than {CONFIG_KEY_PARTS} parts{where}; shorten it")
                continue
            case "[" | "{":
                depth += 1
                if depth > NESTING:
                    where = _position(text, token.start())
                    raise InputError(
                        f"{path}: nested too deeply, beyond {NESTING} arrays and tables{where}; flatten it"
                    )
            case "]" | "}":
                depth -= 1
            case "=" | "," | "\n":
                pass
            case _:  # a string, which may be a part of a key, or a comment: the count of dots goes on
                continue
        dots = 0


def _position(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    return f" (at line {line}, column {offset - text.rfind(chr(10), 0, offset)})"
