"""A worker's crash, hang or chatter costs one question."""

from __future__ import annotations

import pytest

from benchmarks.process import Worker, WorkerDiedError

MODULE = "tests.benchmarks.misbehaving"


def test_answers_come_in_order_and_survive_printing() -> None:
    with Worker(MODULE) as worker:
        for what in ("nothing", "print", "again"):
            assert worker.ask({"do": what}, 60) == {"did": what}


@pytest.mark.parametrize(("what", "reason"), [("abort", "SIGSEGV"), ("exit", "exit status 3: nothing left")])
def test_death_is_reported(what: str, reason: str) -> None:
    with Worker(MODULE) as worker:
        assert worker.ask({"do": "nothing"}, 60)
        with pytest.raises(WorkerDiedError, match=reason):
            worker.ask({"do": what}, 60)
        with pytest.raises(WorkerDiedError, match=reason[:4]):
            worker.ask({"do": "nothing"}, 60)


def test_hang_is_ended() -> None:
    with Worker(MODULE) as worker:
        assert worker.ask({"do": "nothing"}, 60)
        with pytest.raises(WorkerDiedError, match="no answer within 1 s"):
            worker.ask({"do": "hang"}, 1)
        assert worker.process.returncode is not None
