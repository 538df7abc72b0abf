"""Prompts that are read in pieces: the answers are those of prompts read whole, and nobody waits for more than a piece."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.small_model import small_model  # noqa: E402

from stackmask.integration.engine import Constraint, Engine, Request, Sampling  # noqa: E402
from stackmask.integration.engine.prefill import ALONE, PIECES  # noqa: E402

GREEDY = Sampling(temperature=0)
RECORD = '{"name": "Anna Keller", "city": "Lisbon", "email": "anna.keller@example.com"}'
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "temperature_in_degrees": {"type": "integer"}},
    "required": ["name", "temperature_in_degrees"],
    "additionalProperties": False,
}


def long_prompt(engine, number):
    """A prompt of some hundred tokens, which no other number has."""
    return engine.encode(f"{number} " + "Write a person as JSON. " * (6 + 5 * (number % 4)) + f"Repeat this JSON: {RECORD}")


def requests(engine, count=12):
    """Requests of every kind: greedy and with seeds, free and under a grammar, with drafts, trees of them, and jumps."""
    constraints = (
        Constraint("json"),
        None,
        Constraint("json_schema", SCHEMA, {"whitespace": "compact"}),
        Constraint("regex", "[a-z]{5,30}"),
    )
    return [
        Request(
            prompt=long_prompt(engine, number),
            constraint=constraints[number % 4],
            sampling=GREEDY if number % 3 else Sampling(seed=number, temperature=0.8),
            max_tokens=30 + number,
            speculation=4 * (number % 2),
            draft_tree=1 + number % 3,
            jump_forward=number % 5 == 2,
        )
        for number in range(count)
    ]


class Watched(Engine):
    """An engine that records, for each step, the pieces read in it and how many ran before."""

    def __init__(self, *model, **options):
        super().__init__(*model, **options)
        self.log = []
        prefill = self.slots.prefill

        def watch(row, prompt):
            self.log[-1][1].append(len(prompt))
            return prefill(row, prompt)

        self.slots.prefill = watch

    def step(self):
        """A step, recorded."""
        self.log.append((len(self._running), []))
        return super().step()


def run_staggered(engine, asked, every=2):
    """The answers to requests of which one arrives every few steps."""
    answers = [None] * len(asked)
    for place, request in enumerate(asked):
        engine.submit(request, lambda event, place=place: answers.__setitem__(place, event.answer), patient=True)
        for _ in range(every):
            engine.step()
    while engine.step() or not all(answers):
        pass
    return answers


@pytest.mark.parametrize("drafting", [False, True], ids=["lookup", "model"])
@pytest.mark.parametrize("tokens", [1, 7, 64])
def test_answers_are_those_of_whole_prompts(model, tokens, drafting):
    """However small the pieces: greedy or with a seed, with drafts, jumps and rows that move, each answer is that of its request alone."""
    engine = Watched(*model, max_running=6, prefill_tokens=tokens, draft_model=model[0] if drafting else None)
    alone = Engine(*model, max_running=1)
    asked = requests(engine)
    answers = run_staggered(engine, asked)
    assert [answer.token_ids for answer in answers] == [alone.generate(request).token_ids for request in asked]
    assert engine.slots.rows == 0 and (engine.drafts is None or engine.drafts.slots.rows == 0)
    for running, pieces in engine.log:
        assert sum(pieces) <= (tokens if running else ALONE) and len(pieces) <= (PIECES if running else 6)
    assert sum(map(sum, (pieces for _, pieces in engine.log))) == sum(len(request.prompt) for request in asked)
    assert max(running for running, pieces in engine.log if pieces) >= 3
    assert drafting or any(answer.stats.draft_accepted for answer in answers)


def test_prompts_take_turns(model):
    """A short prompt behind long ones waits for one piece of each, and enters before them."""
    engine = Watched(*model, max_running=8, prefill_tokens=16)
    first = []
    runner = Request(prompt=[5], max_tokens=300, sampling=GREEDY, ignore_stop_tokens=True)
    engine.submit(runner, lambda event: None)
    engine.step()
    for number, length in enumerate((400, 400, 400, 5)):
        request = Request(prompt=[5] * length, max_tokens=2, sampling=GREEDY)
        engine.submit(request, lambda event, number=number: number in first or first.append(number))
    steps = 0
    while not first:
        engine.step()
        steps += 1
    assert first == [3] and steps <= 4
    while len(first) < 4:
        engine.step()
        assert engine.step() and engine.info.running <= 5
    assert sorted(first) == [0, 1, 2, 3]
    engine.close()
    assert engine.slots.rows == 0


def test_a_request_ends_while_its_prompt_is_read(model, engine):
    """Cancelled, or failed in the middle of its prompt: its row is free, and the others' answers are as ever."""
    asked = requests(engine, 5)
    plain = [engine.generate(request).token_ids for request in asked]
    for end in ("cancel", "error"):
        other = Engine(*model, max_running=6, prefill_tokens=8)
        answers, tickets = {}, []
        for place, request in enumerate(asked):
            tickets.append(other.submit(request, lambda event, at=(answers, place): at[0].__setitem__(at[1], event.answer)))
        other.step()
        other.step()
        (victim, *_) = other._prefill.sequences
        place = next(place for place, ticket in enumerate(tickets) if ticket._sequence is victim)
        assert 0 <= other.slots.lengths[victim.row] < len(victim.request.prompt)
        if end == "cancel":
            tickets[place].cancel()
        else:
            prefill = other.slots.prefill

            def fail(row, prompt, given=prefill, victim=victim):
                if row == victim.row:
                    raise RuntimeError("the model fails")
                return given(row, prompt)

            other.slots.prefill = fail
        while other.step():
            pass
        assert answers[place].finish_reason == ("cancelled" if end == "cancel" else "error")
        assert [answers[i].token_ids for i in range(5) if i != place] == [plain[i] for i in range(5) if i != place]
        assert other.slots.rows == 0


def test_closing_ends_what_is_read(model):
    """An engine that is closed while prompts are read answers them all."""
    engine = Engine(*model, max_running=4, prefill_tokens=4)
    reasons = []
    asked = requests(engine, 6)
    with engine:
        for request in asked:
            engine.submit(request, lambda event: event.answer and reasons.append(event.answer.finish_reason))
    assert len(reasons) == 6 and set(reasons) <= {"cancelled", "stop", "length"} and engine.slots.rows == 0


def test_models_that_read_prompts_whole(model):
    """A cache of the model's own making gets each prompt in one piece, whatever the option says, and its rows move too."""
    engine = Watched(small_model("Mistral", sliding_window=8), model[1], max_running=4, prefill_tokens=4)
    asked = [Request(prompt=long_prompt(engine, i), max_tokens=9 + i, sampling=GREEDY, finish_within_budget=False) for i in range(6)]
    answers = run_staggered(engine, asked)
    assert sorted(count for _, pieces in engine.log for count in pieces) == sorted(len(request.prompt) for request in asked)
    assert [answer.token_ids for answer in answers] == [engine.generate(request).token_ids for request in asked]


def test_the_size_of_a_piece(model):
    """It follows from the model's device, unless the engine is told; nothing cannot be read."""
    assert Engine(*model)._prefill.tokens == 64
    assert Engine(*model, prefill_tokens=9)._prefill.tokens == 9
    with pytest.raises(ValueError, match="at least one token of a prompt"):
        Engine(*model, prefill_tokens=0)
