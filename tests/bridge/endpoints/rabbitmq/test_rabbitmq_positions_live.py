"""A position that a stream does not have any more: a check shows what a source then does, and the source does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.endpoint import Disconnected
from tests.support.bridge.behaviour import on_a_loop, read_all_of
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.bridge.positions import look_at_position


@on_a_loop
async def test_a_stream_that_ends_before_the_offset_in_its_file_is_an_error_of_the_check(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, path = broker.queue(x_queue_type="stream"), tmp_path / "offsets"
    broker.put(queue, *[b"%d" % n for n in range(20)])
    first = broker.source(queue, offsets=path)
    await first.open()
    first.settle((await read_all_of(first, 20))[9])
    await first.close()
    assert await look_at_position(broker.source(queue, offsets=path), "offsets") == [
        ("ok", f"stream {queue!r}: goes on after offset 9")
    ]
    monkeypatch.setattr("bridge.endpoints.rabbitmq.consumer.resuming.FIND_SECONDS", 2.0)
    broker.channel.queue_delete(queue)
    broker.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
    broker.put(queue, b"0")
    for count, expected in ((0, "nothing from offset 9 on"), (30, "another message at offset 9")):
        broker.put(queue, *[b"new %d" % n for n in range(count)])
        [(level, text)] = await look_at_position(broker.source(queue, offsets=path), "offsets")
        assert (level, expected in text, f"remove {path}" in text) == ("error", True, True)
        with pytest.raises(Disconnected, match=expected):
            await broker.source(queue, offsets=path).open()
    late = broker.source(queue, offset=1_000)
    assert "offset 1000 on yet" in [each.text for each in await late.check() if each.level == "warning"][-1]
    path.write_text("-5\n")
    assert [each.key for each in await broker.source(queue, offsets=path).check() if each.level == "error"] == [
        "offsets"
    ]
    broker.channel.queue_delete(queue)
    broker.channel.queue_declare(queue, durable=True)
    path.write_text("9\n")
    assert await look_at_position(broker.source(queue, offsets=path), "offsets") == []
