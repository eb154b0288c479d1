"""A member of a consumer group as a process: ``python -m tests.support.bridge.groups.member URL QUEUE FOLDER NAME``.

It appends a record for each message to FOLDER/NAME.handled, and each plan to FOLDER/NAME.plans. SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from struct import Struct

from bridge.consumers.groups import ConsumerGroup
from exchange.values.message import Message

RECORD = Struct("<dII")
"""A handled message: when (a clock that all processes of the machine share), its key, its number among those of it."""
BODY = Struct("<II")


async def main(url: str, queue: str, folder: Path, name: str) -> None:
    """Consume until SIGTERM."""
    handled = os.open(folder / f"{name}.handled", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def handle(message: Message) -> None:
        # The record is the effect: its time is that of the effect, wherever the process is stopped or killed.
        os.write(handled, RECORD.pack(time.monotonic(), *BODY.unpack(message.body)))

    group = ConsumerGroup(url, queue, handle, name=name)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, group.stop)
    running = asyncio.create_task(group.run())
    seen = 0
    with (folder / f"{name}.plans").open("a") as plans:
        while not running.done():
            plan = group.plan
            if plan is not None and plan.epoch != seen:
                seen = plan.epoch
                print(json.dumps([plan.epoch, plan.planner, plan.assignment]), file=plans, flush=True)
            await asyncio.wait([running], timeout=0.02)
    running.result()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
