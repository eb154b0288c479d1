"""The JSON that RocketMQ's servers write with fastjson: numbers may be names in it, ``{0:"10.0.0.1:10911"}``."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

__all__ = ["parse_json"]

# Each match takes all that it looked at, strings without an end included, so that no text makes this quadratic.
BARE_NAME: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?+|([{,]\s*+)(-?\d++)(?=\s*+:)', re.DOTALL)


def parse_json(text: str) -> Any:
    """Return the value of a text, bare numbers that are names being strings.

    Raises ValueError for what is no JSON, is nested too deeply or has a number beyond a double.
    """
    try:
        try:
            return _loads(text)
        except ValueError:
            return _loads(BARE_NAME.sub(_quote, text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _loads(text: str) -> Any:
    return json.loads(text, parse_float=_finite, parse_constant=_finite)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no number of JSON")
    return number


def _quote(found: re.Match[str]) -> str:
    return found[0] if found[2] is None else f'{found[1]}"{found[2]}"'
