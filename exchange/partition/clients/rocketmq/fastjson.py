"""The JSON that RocketMQ's servers write with fastjson: names may be bare numbers, ``{0:"10.0.0.1:10911"}``,
or objects, ``{{"queueId":0,"topic":"t"}:42}``.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from exchange.values.json_text import parse_leniently

__all__ = ["parse_json"]

# Each match consumes all that it has looked at, even an unterminated string, so that no text takes quadratic time.
STRING: Final = r'"(?:[^"\\]|\\.)*+"'
BARE_NAME: Final = re.compile(rf'{STRING}?+|([{{,]\s*+)(-?[0-9]++|\{{(?:[^{{}}"]|{STRING})*+\}})(?=\s*+:)', re.DOTALL)


def parse_json(text: str) -> Any:
    """Return the value of a text; names that are bare numbers or objects become strings, an object its text.

    Raises ValueError for a text that is not JSON, is nested too deeply, or has a number beyond a double.
    """
    try:
        return parse_leniently(text)
    except ValueError:
        return parse_leniently(BARE_NAME.sub(_quote, text))


def _quote(match: re.Match[str]) -> str:
    return match[0] if match[2] is None else match[1] + json.dumps(match[2])
