"""The offset of a stream that a source keeps: in its file is always what was settled last before it was written."""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoints.rabbitmq.consumer.offsets import StreamOffsets
from bridge.endpoints.rabbitmq.consumer.reading import RabbitmqSource
from exchange.errors import InputError
from tests.support.tiers import examples
from tests.support.waiting import find_limit


def fail(*_: Any, **__: Any) -> NoReturn:
    raise OSError("the disk is full")


STEPS = st.lists(
    st.tuples(st.sampled_from(["settle", "write", "fail", "forget", "restart"]), st.integers(0, 3)), max_size=12
)


@examples(200)
@given(STEPS, st.booleans())
@example([("settle", 1), ("forget", 0), ("write", 0)], True)
@example([("settle", 1), ("write", 0), ("forget", 0), ("settle", 1), ("write", 0)], True)
@example([("settle", 1), ("fail", 0), ("write", 0)], True)
def test_the_file_has_what_was_settled_last_before_it_was_written(steps: list[tuple[str, int]], has_file: bool) -> None:
    """Also of a stream that was declared anew, whose offsets begin again: its messages are others."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "offset"
        offsets = StreamOffsets(path if has_file else None)
        known: tuple[int, str] | None = None
        written: tuple[int, str] | None = None
        stream = 0
        for step, number in steps:
            if step == "settle":
                known = number, f"f{stream}-{number}"
                offsets.settle(number, lambda mark=known[1]: mark)  # type: ignore[misc]  # a default binds the value
            elif step == "write":
                asyncio.run(offsets.write())
                written = known or written
            elif step == "fail":
                fails = has_file and offsets.is_unwritten
                with (
                    pytest.MonkeyPatch.context() as patch,
                    pytest.raises(OSError, match="full") if fails else nullcontext(),
                ):
                    patch.setattr("bridge.endpoints.rabbitmq.consumer.offsets.replace_file", fail)
                    asyncio.run(offsets.write())
            elif step == "forget":
                stream += 1
                known = None
                offsets.forget()
            else:
                offsets = StreamOffsets(path if has_file else None)
                known = None
            if has_file:
                assert (path.read_text().split() if path.exists() else None) == (
                    None if written is None else [str(written[0]), written[1]]
                )
                assert offsets.last == (known or written or (None,))[0]
                assert offsets.fingerprint == (known or written or (0, ""))[1]
                known = known or written
            else:
                assert not path.exists()
                assert offsets.last == (None if known is None else known[0])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("text", ["-1\n", "9" * 19, "1_0", "٣", "nineteen", None])
def test_a_file_of_something_else_is_an_error_and_stops_nothing_else(tmp_path: Path, text: str | None) -> None:
    """A named pipe (None) would be waited for, and with it the loop."""
    path = tmp_path / "offset"
    path.write_text(text, "utf-8") if text is not None else os.mkfifo(path)
    source = RabbitmqSource("from", [], "orders", offsets=path)
    with pytest.raises(InputError, match=r"offset: (must hold the last offset|cannot be read)"):
        asyncio.run(asyncio.wait_for(source.open(), find_limit()))
