"""Joined answers mean the same as single ones, and never answer what is not done or not ours."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exchange.dispatch.answers import AnswerFrame, Answers


class Broker:
    """A channel as a broker sees it: what is unanswered, in order; an answer to anything else closes the channel."""

    def __init__(self) -> None:
        self.unanswered: dict[int, bool] = {}  # tag -> whether it is ours
        self.answered: dict[int, str] = {}
        self.last = 0

    def deliver(self, ours: bool) -> int:
        self.last += 1
        self.unanswered[self.last] = ours
        return self.last

    def send(self, frames: list[AnswerFrame]) -> None:
        for tag, answer, multiple in frames:
            assert tag in self.unanswered, f"unknown delivery tag {tag}"
            for each in [one for one in self.unanswered if one == tag or (multiple and one < tag)]:
                assert self.unanswered.pop(each), f"{each} is not ours"
                self.answered[each] = answer


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.sampled_from([True] * 9 + [False])),
        st.tuples(st.sampled_from(["ack", "ack", "ack", "reject", "requeue"]), st.integers(0, 9)),
        st.tuples(st.just("send"), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS, st.booleans())
def test_each_delivery_gets_its_own_answer_once(steps: list[tuple[str, int]], used_before: bool) -> None:
    broker, answers = Broker(), Answers()
    if used_before:
        broker.deliver(ours=False)
    open_tags: list[int] = []
    given_answers: dict[int, str] = {}
    for step, value in steps:
        if step == "deliver":
            tag = broker.deliver(bool(value))
            if value:
                answers.receive(tag)
                open_tags.append(tag)
        elif step == "send":
            broker.send(answers.take())
            assert broker.answered == given_answers
        elif open_tags:
            tag = open_tags.pop(value % len(open_tags))
            given_answers[tag] = step
            answers.add(tag, step)  # type: ignore[arg-type]
    broker.send(answers.take())
    assert broker.answered == given_answers


def test_a_hundred_done_in_order_are_one_frame() -> None:
    answers = Answers()
    for tag in range(1, 101):
        answers.receive(tag)
        answers.add(tag, "ack")
    assert answers.pending == 100
    assert answers.take() == [AnswerFrame(100, "ack", multiple=True)]
    assert answers.take() == []


def test_what_is_done_behind_a_slow_one_is_sent_all_the_same() -> None:
    """Else one slow handler would hold the whole prefetch. What it leaves behind is joined again, and nothing is kept."""
    answers = Answers()
    for tag in range(1, 10_001):
        answers.receive(tag)
        if tag > 1:
            answers.add(tag, "ack")
            assert answers.take() == [AnswerFrame(tag, "ack")]
    assert len(answers._unanswered) == 1
    answers.receive(10_001)
    answers.add(1, "ack")
    answers.add(10_001, "ack")
    assert answers.take() == [AnswerFrame(10_001, "ack", multiple=True)]
    assert not answers._unanswered


def test_on_a_channel_with_another_consumer_nothing_is_joined() -> None:
    """Tag 3 went to someone else, who has not acknowledged it."""
    answers = Answers()
    for tag in (1, 2, 4, 5):
        answers.receive(tag)
        answers.add(tag, "ack")
    assert answers.take() == [AnswerFrame(tag, "ack") for tag in (1, 2, 4, 5)]
