"""Places for work that may take long: clients take turns, and slow work never has all places."""

import threading
import time

import pytest

from stackmask.integration.processes.turns import CLIENT, BusyError, Turns


class Work:
    """A call that runs until it is let go; where it may be stopped it begins again, as the work of a worker does."""

    def __init__(self, turns):
        self.turns = turns
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.stopped = threading.Event()
        self.starts = 0
        self.is_slow = threading.Event()

    def __call__(self, *, slow):
        """How often it began."""
        while True:
            self.starts += 1
            self.begun.release()
            self.turns.begin(self.stopped.set)
            if slow and self.turns.outlast():
                self.is_slow.set()
            while not (self.go_on.is_set() or self.stopped.is_set()):
                time.sleep(0.001)
            if not self.turns.end():
                return self.starts
            self.stopped.clear()
            self.turns.wait_again()


def submit(turns, client, *, slow=False):
    """A call of a client, and its future."""
    token = CLIENT.set(client)
    try:
        work = Work(turns)
        return work, turns.submit(work, slow=slow)
    finally:
        CLIENT.reset(token)


@pytest.fixture
def turns():
    turns = Turns(2, most_waiting=4, patience=10)
    yield turns
    turns.shutdown()


def test_slow_work_leaves_a_place(turns):
    """The second of two slow calls is stopped when another comes, and begins again when the first is over."""
    first, one = submit(turns, "a", slow=True)
    assert first.is_slow.wait(5)
    second, two = submit(turns, "a", slow=True)
    assert second.begun.acquire(timeout=5)
    quick, three = submit(turns, "a")
    quick.go_on.set()
    assert three.result(5) == 1
    assert not one.done() and not two.done() and not first.stopped.is_set()
    second.go_on.set()
    first.go_on.set()
    assert (one.result(5), two.result(5)) == (1, 2)


def test_slow_work_goes_on_while_nobody_waits(turns):
    """Where nobody waits, slow calls have all places."""
    works = [submit(turns, "a", slow=True) for _ in range(2)]
    for work, _ in works:
        assert work.begun.acquire(timeout=5)
    time.sleep(0.05)
    assert not any(work.stopped.is_set() for work, _ in works)
    for work, _ in works:
        work.go_on.set()
    assert [future.result(5) for _, future in works] == [1, 1]


def test_clients_take_turns(turns):
    """A client that came last is served before the others' second calls."""
    running = [submit(turns, "a") for _ in range(2)]
    for work, _ in running:
        assert work.begun.acquire(timeout=5)
    waiting = [submit(turns, "a") for _ in range(3)]
    late, future = submit(turns, "b")
    late.go_on.set()
    running[0][0].go_on.set()
    assert future.result(5) == 1
    for work, _ in [*running, *waiting]:
        work.go_on.set()
    assert all(future.result(5) for _, future in [*running, *waiting])


def test_the_share_of_a_client(turns):
    """A client that fills the queue is refused, and another has its share of it all the same."""
    works = [submit(turns, "a") for _ in range(6)]
    with pytest.raises(BusyError):
        submit(turns, "a")
    works.append(submit(turns, "b"))
    for work, _ in works:
        work.go_on.set()
    assert all(future.result(5) == 1 for _, future in works)


def test_patience(turns):
    """What was stopped and finds no place in time ends in an error; so does what would be one too many to wait."""
    impatient = Turns(1, most_waiting=4, patience=0.05)
    slow, future = submit(impatient, "a", slow=True)
    assert slow.begun.acquire(timeout=5)
    quick, other = submit(impatient, "a")
    assert quick.begun.acquire(timeout=5)
    with pytest.raises(BusyError):
        future.result(5)
    quick.go_on.set()
    assert other.result(5) == 1
    impatient.shutdown()


def test_errors_free_their_place(turns):
    """A call that fails leaves its place to the next."""

    def fail():
        raise ValueError("no")

    futures = [turns.submit(fail) for _ in range(4)]
    for future in futures:
        with pytest.raises(ValueError, match="no"):
            future.result(5)
