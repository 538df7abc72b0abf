"""Forced text as drafts under a stand-in of SGLang's n-gram proposer; scripts/sglang_check.py runs the real one in SGLang's engine."""

import json
import random
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support import sglang  # noqa: E402

SIZE = 1280
CALL = 'call: \\{"name": "get_weather", "city": "[a-c]{2}", "unit": "celsius"\\}'
FRAME = 'call: {"name": "get_weather", "city": "'


@pytest.fixture
def server(modules, tokenizer):
    """A function that makes the backend of a scheduler that speculates, by n-grams unless it is said otherwise."""
    from stackmask.integration.sglang import register

    register()
    registry = modules["sglang.srt.constrained.base_grammar_backend"].GRAMMAR_BACKEND_REGISTRY

    def make(algorithm="NGRAM", **serving):
        sglang.SERVING.__dict__.update(serving)
        sglang.SPECULATION.speculative_algorithm = algorithm
        return registry["stackmask"](SimpleNamespace(tp_size=1), tokenizer, SIZE, {2})

    return make


@pytest.fixture
def worker(modules):
    """A function that makes the n-gram worker of a scheduler."""
    return modules["sglang.srt.speculative.ngram_worker"].NGRAMWorker


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def new(backend, tokenizer, kind, text, *, reasoning=False):
    request = sglang.Request(kind, text, reasoning=reasoning, tokenizer=tokenizer)
    sglang.admit(backend, request)
    assert not request.failure
    return request


def prepare(worker, *requests):
    """The drafts of a batch: for each request its tokens, and its mask."""
    tokens, mask = worker._prepare_draft_tokens(sglang.ScheduleBatch(list(requests)))
    size = worker.draft_token_num
    assert tokens.dtype == mask.dtype == np.int64
    return list(zip(tokens.reshape(-1, size).tolist(), mask.reshape(-1, size, size), strict=True))


def paths(tokens, mask):
    """The path to each node that is no padding, by an independent reading of the mask."""
    found = []
    for node in range(1, len(tokens)):
        ancestors = [place for place in range(node + 1) if mask[node][place]]
        assert ancestors[0] == 0
        assert ancestors[-1] == node
        assert not mask[node][node + 1 :].any()
        assert all((mask[place][: place + 1] == mask[node][: place + 1]).all() for place in ancestors[:-1])
        if tokens[node] != 0:
            found.append([tokens[place] for place in ancestors[1:]])
    return found


def whole(request, tokens):
    """The text of a request that takes tokens, and whether its grammar allows them."""
    return request.grammar.matcher.validate_tokens(tokens) == len(tokens)


class TestInstall:
    """Where the hook is put, and what it refuses."""

    def test_only_where_the_server_speculates_by_n_grams(self, server, worker, monkeypatch):
        """With no speculation, another algorithm, or the option off, the proposer stays as it is."""
        original = worker._prepare_draft_tokens
        for algorithm in (None, "EAGLE"):
            server(algorithm)
        monkeypatch.setenv("STACKMASK_SGLANG_FORCED_DRAFTS", "0")
        server()
        assert worker._prepare_draft_tokens is original
        monkeypatch.delenv("STACKMASK_SGLANG_FORCED_DRAFTS")
        server()
        hooked = worker._prepare_draft_tokens
        assert hooked is not original
        server()
        assert worker._prepare_draft_tokens is hooked, "hooked twice"

    @pytest.mark.parametrize(
        ("module", "owner", "name"),
        [
            ("sglang.srt.speculative.ngram_worker", "NGRAMWorker", "_prepare_draft_tokens"),
            ("sglang.srt.managers.schedule_batch", "ScheduleBatch", "grammar_needs_sync"),
            ("sglang.srt.constrained.reasoner_grammar_backend", "ReasonerGrammarObject", "_grammar_active"),
        ],
    )
    @pytest.mark.parametrize("change", ["gone", "parameters"])
    def test_what_has_changed_is_refused(self, modules, server, worker, monkeypatch, module, owner, name, change):
        """The error names it and the option that starts the server; nothing is hooked."""
        from stackmask.integration.sglang import IncompatibleVersionError

        before = worker._prepare_draft_tokens
        if change == "gone":
            monkeypatch.delattr(getattr(modules[module], owner), name) if name in vars(getattr(modules[module], owner)) else (
                monkeypatch.setattr(modules[module], owner, object)
            )
        else:
            monkeypatch.setattr(getattr(modules[module], owner), name, lambda self, batch, more: None)
        with pytest.raises(IncompatibleVersionError, match=f"{owner}.{name} takes .*STACKMASK_SGLANG_FORCED_DRAFTS=0"):
            server()
        assert not hasattr(worker, "__stackmask__")
        assert change == "gone" or owner == "NGRAMWorker" or worker._prepare_draft_tokens is before

    def test_a_hook_that_was_not_put_on_is_an_error(self, modules, server, monkeypatch):
        """SGLang's registry logs its errors and goes on; the server does not start then."""
        from stackmask.integration.sglang import IncompatibleVersionError

        monkeypatch.setattr(modules["sglang.srt.plugins.hook_registry"].HookRegistry, "apply_hooks", classmethod(lambda cls: None))
        with pytest.raises(IncompatibleVersionError, match="put no hook"):
            server()

    def test_another_layout_is_left_alone(self, server, worker, tokenizer, caplog):
        """Tokens and masks of other shapes are not written to, which the log says; an exception would end the scheduler."""
        from stackmask.integration.sglang.drafts import add_drafts

        batch = sglang.ScheduleBatch([new(server(), tokenizer, "regex", "ab")])
        tokens, mask = np.array([1, 0, 0, 0, 0, 0]), np.eye(6, dtype=np.int64).ravel()
        assert add_drafts((tokens, mask), worker(6), batch)[0].tolist() != tokens.tolist()
        assert not caplog.messages
        for wrong in ((tokens[:-1], mask), (tokens, mask[:-6])):
            assert add_drafts(wrong, worker(6), batch) is wrong
            assert "for 1 requests of 6 drafts" in caplog.messages[-1]


class TestDrafts:
    """What becomes drafts."""

    def test_forced_text(self, server, worker, tokenizer):
        """The text that must come, cut as the tokenizer cuts it; the request and its grammar stay where they are."""
        request = new(server(), tokenizer, "regex", CALL)
        ((tokens, mask),) = prepare(worker(6), request)
        assert tokens == [1, *ids(tokenizer, FRAME)[:5]]
        assert mask.tolist() == np.tril(np.ones((6, 6))).tolist()
        assert request.grammar.matcher.num_accepted == 0
        ((tokens, _),) = prepare(worker(40), request)
        frame = ids(tokenizer, FRAME)
        assert tokens[1 : len(frame)] == frame[:-1], "the last token may go on past the forced text"

    def test_the_end_is_forced_too(self, server, worker, tokenizer):
        """Where nothing can follow the forced text, its last token and the stop token are drafts."""
        request = new(server(), tokenizer, "regex", "(yes|no), certainly")
        for token in ids(tokenizer, "yes"):
            request.grammar.accept_token(token)
        ((tokens, mask),) = prepare(worker(30), request)
        rest = [*ids(tokenizer, "yes, certainly")[len(ids(tokenizer, "yes")) :], 2]
        assert tokens[1 : len(rest) + 1] == rest
        assert set(tokens[len(rest) + 1 :]) == {0}, "padding"
        assert paths(tokens, mask)[-1] == rest

    def test_texts_that_begin_by_one_of_a_few_bytes(self, server, worker, tokenizer):
        """Each of them is a branch, cut as the tokenizer cuts it."""
        request = new(server(), tokenizer, "json", '{"enum": ["celsius", "fahrenheit", "kelvin"]}')
        ((tokens, mask),) = prepare(worker(60), request)
        found = paths(tokens, mask)
        for text in ('"celsius"', '"fahrenheit"', '"kelvin"'):
            assert [*ids(tokenizer, text), 2] in found
        assert all(whole(request, path) for path in found)

    def test_free_text_has_no_drafts(self, server, worker, tokenizer):
        """Where many bytes can come, the tree is the proposer's, without what the grammar forbids."""
        free = new(server(), tokenizer, "regex", "[a-z]{4}")
        assert set(prepare(worker(8), free)[0][0][1:]) == {0}
        made = worker(8)
        a, dot = ids(tokenizer, "a")[0], ids(tokenizer, ".")[0]
        made.proposals = [[[a, a], [dot, a], [a, dot], [a, a, a]]]
        ((tokens, mask),) = prepare(made, free)
        assert sorted(paths(tokens, mask)) == [[a], [a, a], [a, a, a]]

    def test_text_behind_drafts(self, server, worker, tokenizer):
        """Behind each of the proposer's drafts that fit comes what must follow it."""
        request = new(server(), tokenizer, "regex", '[a-z]{2}"temperature": [0-9]{9}')
        made = worker(12)
        a = ids(tokenizer, "a")[0]
        made.proposals = [[[a, a]]]
        ((tokens, mask),) = prepare(made, request)
        longest = max(paths(tokens, mask), key=len)
        assert len(longest) > 4
        assert 'aa"temperature": '.startswith(tokenizer.decode(longest))

    def test_a_chain_stays_one(self, server, worker, tokenizer):
        """Where the attention kernel takes chains only, there are no branches."""
        request = new(server(), tokenizer, "json", '{"enum": ["celsius", "fahrenheit", "kelvin"]}')
        made = worker(12, breadth=1)
        made.proposals = [[ids(tokenizer, '"fahr')]]
        ((tokens, mask),) = prepare(made, request)
        count = len([token for token in tokens if token])
        assert count > 3
        assert (mask[:count, :count] == np.tril(np.ones((count, count)))).all()
        assert '"fahrenheit"'.startswith(tokenizer.decode(tokens[1:count]).removesuffix(tokenizer.eos_token))

    def test_a_batch(self, server, worker, tokenizer):
        """Requests without a grammar, without a tokenizer, terminated ones and others' grammars keep the proposer's drafts."""
        backend = server()
        forced, free, bare, done = (new(backend, tokenizer, "regex", "abcabcabc") for _ in range(4))
        free.grammar, bare.tokenizer = None, None
        for token in [*ids(tokenizer, "abcabcabc"), 2]:
            done.grammar.accept_token(token)
        foreign = new(backend, tokenizer, "regex", "abcabcabc")
        foreign.grammar = SimpleNamespace(grammar=None)
        made = worker(5)
        made.proposals = [[[7, 8]]] * 5
        found = prepare(made, forced, free, bare, done, foreign)
        assert found[0][0][1:4] == ids(tokenizer, "abcabcabc")[:3]
        for place in (1, 2, 4):
            assert found[place][0] == [1, 7, 8, 0, 0]
        assert found[3][0] == [1, 0, 0, 0, 0]

    def test_a_grammar_that_lags_behind(self, server, worker, tokenizer):
        """Where the step before is not yet accepted, the drafts would be of another place: there are none."""
        batch = sglang.ScheduleBatch([new(server(), tokenizer, "regex", "abcabc")])
        batch.is_synchronous = False
        tokens, _ = worker(5)._prepare_draft_tokens(batch)
        assert tokens.tolist() == [1, 0, 0, 0, 0]
        alone = worker(1)._prepare_draft_tokens(sglang.ScheduleBatch(batch.reqs))[0]
        assert alone.tolist() == [1]

    def test_thinking_has_no_drafts(self, server, worker, tokenizer):
        """They begin where the grammar does."""
        request = new(server(reasoning_parser="qwen3"), tokenizer, "regex", "abcabcabc", reasoning=True)
        assert set(prepare(worker(5), request)[0][0][1:]) == {0}
        request.grammar.accept_token(tokenizer.think_end)
        assert prepare(worker(5), request)[0][0][1:4] == ids(tokenizer, "abcabcabc")[:3]

    def test_the_cut_sees_the_tokens_before(self, server, worker, tokenizer):
        """Wherever a model that cuts text as the tokenizer does stands in a forced text, its next tokens are the drafts."""
        text = '<f>{"name": "get_weather", "arguments": {"city": "Oslo"}}</f>'
        whole = [*ids(tokenizer, text), 2]
        request = new(server(), tokenizer, "ebnf", f"root ::= {json.dumps(text)}")
        made = worker(len(whole) + 1)
        for place, token in enumerate(whole):
            ((tokens, _),) = prepare(made, request)
            assert tokens[1 : len(whole) - place + 1] == whole[place:]
            request.grammar.accept_token(token)
            request.output_ids.append(token)

    def test_a_model_that_cuts_otherwise(self, server, worker, tokenizer):
        """After a token that the tokenizer would not have made, the other tokens by which the text can begin are drafts too."""
        request = new(server(), tokenizer, "regex", "temperature and temperature")
        first = tokenizer.convert_tokens_to_ids("t")
        request.grammar.accept_token(first)
        request.output_ids.append(first)
        ((tokens, mask),) = prepare(worker(20), request)
        found = paths(tokens, mask)
        rest = ids(tokenizer, "emperature and temperature")
        assert [*rest, 2] in found
        beginnings = [token for token in range(SIZE) if (text := tokenizer.decode([token])) and "emperature and".startswith(text)]
        assert len(beginnings) > 2
        assert sorted(path[0] for path in found if len(path) == 1) == sorted(beginnings)
        ((tokens, mask),) = prepare(worker(4), request)
        assert len({path[0] for path in paths(tokens, mask)}) <= 3, "no more than half of the tree, and the first of the tokenizer's"

    def test_long_text_is_cut_in_parts(self, server, worker, tokenizer):
        """Of a long forced text only what can become drafts is cut, and no character is split."""
        from stackmask.integration.sglang import drafts

        seen = []

        class Counting:
            def encode(self, text, add_special_tokens):
                seen.append(text)
                return ids(tokenizer, text)

        request = new(server(), tokenizer, "json", json.dumps({"const": "\u4e2d" * 4000}))
        request.tokenizer = Counting()
        ((tokens, mask),) = prepare(worker(6), request)
        assert len(paths(tokens, mask)) == 5
        assert max(len(text.encode()) for text in seen) <= 6 * drafts.LONGEST_TOKEN

    def test_a_limit_met_by_a_draft_leaves_the_proposers(self, server, worker, tokenizer, monkeypatch):
        """The request goes on; if it comes there itself, its mask meets the limit."""
        from stackmask.integration.sglang import drafts
        from stackmask.pda.exceptions import LimitError

        def fail(*_):
            raise LimitError("too deep")

        monkeypatch.setattr(drafts, "grow", fail)
        request = new(server(), tokenizer, "regex", "abc")
        assert prepare(worker(4), request)[0][0] == [1, 0, 0, 0]


def preference(seed):
    """A model: which of the allowed tokens it takes depends on all tokens before."""

    def choose(before, allowed):
        return random.Random(f"{seed} {before}").choice(sorted(allowed))

    return choose


@pytest.mark.parametrize("breadth", [10, 1])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json", '{"type": "object", "properties": {"temperature": {"enum": ["celsius", "kelvin"]}}, "required": ["temperature"]}'),
        ("regex", 'name: "(get_weather|get_time)", (city|town): [a-c]{1,4};'),
        ("ebnf", 'root ::= "(" root ")" | "value = " [0-9]{1,3}'),
    ],
)
def test_the_same_texts_in_fewer_steps(server, worker, tokenizer, kind, text, breadth):
    """Whatever the model prefers, its texts are those of decoding token by token; drafts that it takes save steps."""
    backend = server()
    made = worker(10, breadth=breadth)
    plain_steps = steps = 0
    for seed in range(12):
        choose = preference(seed)
        plain, drafted = (new(backend, tokenizer, kind, text) for _ in range(2))
        while not plain.grammar.is_terminated() and len(plain.output_ids) < 120:
            sglang.verify(plain, [plain.output_ids[-1]], np.ones((1, 1)), choose, SIZE)
            plain_steps += 1
        while len(drafted.output_ids) < len(plain.output_ids):
            ((tokens, mask),) = prepare(made, drafted)
            sglang.verify(drafted, tokens, mask, choose, SIZE)
            steps += 1
        assert drafted.output_ids[: len(plain.output_ids)] == plain.output_ids
    assert steps < plain_steps
