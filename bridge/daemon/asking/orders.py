"""What a bridge that runs is asked to do: pause, drain, resume, reload; all its processes at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from bridge.daemon.asking.processes import (
    Answers,
    Process,
    ask,
    ask_all,
    describe_refusal,
    explain_lone_pipeline,
    query_for,
    read_all,
    wait_for,
)
from bridge.daemon.views import PipelineStatus
from exchange.errors import InputError
from exchange.text.display import count_noun

Order: TypeAlias = Literal["pause", "drain", "resume"]

STATES: Final[dict[Order, Callable[[Process | PipelineStatus], bool]]] = {
    "pause": lambda each: each.paused,
    "drain": lambda each: each.drained,
    "resume": lambda each: not (each.paused or each.drained or each.draining),
}
"""Order -> whether a process, or a pipeline, has carried it out."""
DONE: Final[dict[Order, str]] = {"pause": "paused", "drain": "drained", "resume": "resumed"}


class Result(NamedTuple):
    """What has become of an order."""

    text: str
    """The state that was reached, or what is missing; one line or several."""
    done: bool
    errors: tuple[str, ...] = ()
    """Why processes could not be asked, one line each."""


def give_order(addresses: Sequence[str], order: Order, seconds: float, pipeline: str | None = None) -> Result:
    """Have all processes do something, or one pipeline in each, and wait until they have, ``seconds`` at most."""
    until = time.monotonic() + seconds
    # Before anything is asked for: a bridge of an earlier release would do it as a whole.
    if pipeline is not None and (unknown := read_all(addresses, seconds, pipeline).errors):
        return Result("", done=False, errors=unknown)

    def post(address: str) -> None:
        answer = ask(address, "POST", f"/{order}{query_for(pipeline)}", seconds)
        if answer.status != 202:
            raise InputError(f"{address}: {describe_refusal(answer)}")

    errors = [each for each in ask_all(addresses, post) if each is not None]
    if errors:
        return Result("", done=False, errors=tuple(map(str, errors)))
    answers, is_done = wait_for(addresses, STATES[order], max(0.0, until - time.monotonic()), pipeline)
    if answers.errors:
        return Result("", done=False, errors=answers.errors)
    left = sum([each.unsettled for each in answers.processes])
    text = DONE[order] if is_done else f"not {DONE[order]} after {seconds:g} s"
    if left and order != "resume":
        text += f": {count_noun(left, 'message')} that {'was' if left == 1 else 'were'} read "
        text += f"{'is' if left == 1 else 'are'} not settled" + ("" if is_done else _explain_waiting(answers))
    return Result(text, is_done)


def _explain_waiting(answers: Answers) -> str:
    """Return what keeps a bridge from being drained, as far as its conditions say."""
    reasons = [str(each) for process in answers.processes for each in process.conditions if each.endpoint]
    return "".join([f"\n  {each}" for each in dict.fromkeys(reasons)]) + "\nit goes on; ask again, or resume"


def reload(addresses: Sequence[str], seconds: float, pipeline: str | None = None) -> Result:
    """Have all processes read the configuration again, and wait until that is in effect or refused.

    Of several pipelines those begin anew that are changed, or the one that is named, which may be a new one.
    """
    if pipeline is not None:
        there = read_all(addresses, seconds)
        one = [explain_lone_pipeline(each.address, pipeline) for each in there.processes]
        if there.errors or not all(each.pipelines for each in there.processes):
            return Result("", done=False, errors=there.errors or tuple(one))

    def post(address: str) -> tuple[int, str]:
        try:
            answer = ask(address, "POST", f"/reload{query_for(pipeline)}", seconds)
        except InputError as error:
            if not isinstance(error.__cause__, TimeoutError):
                raise
            return 202, f"not in effect after {seconds:g} s, and not refused: hashstar bridge status shows what waits"
        if answer.status not in (200, 202, 409):
            raise InputError(f"{address}: {describe_refusal(answer)}")
        return answer.status, answer.body.decode("utf-8", "replace").strip()

    results = ask_all(addresses, post)
    errors = tuple([str(each) for each in results if isinstance(each, InputError)])
    answers = [each for each in results if not isinstance(each, InputError)]
    texts = dict.fromkeys(
        [f"refused, and nothing has changed:\n{text}" if code == 409 else text for code, text in answers]
    )
    return Result("\n".join(texts), not errors and all(code == 200 for code, _ in answers), errors)
