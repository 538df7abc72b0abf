"""The SGLang backend under SGLang's calls in SGLang's order, with stand-ins for its modules; scripts/sglang_check.py runs the real one."""

import json
import random
import re
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support import sglang  # noqa: E402

from stackmask.pda.exceptions import LimitError, StructuralTagError  # noqa: E402
from stackmask.pda.limits import Limits  # noqa: E402

PERSON = json.dumps(
    {"type": "object", "properties": {"name": {"enum": ["Ada", "Bo"]}, "age": {"type": "integer"}}, "required": ["name"]},
)
TAG = {"type": "tag", "begin": "<f>", "content": {"type": "json_schema", "json_schema": {"const": 1}}, "end": "</f>"}
ARGUMENTS = SimpleNamespace(tp_size=1)


@pytest.fixture
def server(modules, tokenizer):
    """A function that makes the backend as a scheduler does, by the name on its command line."""
    from stackmask.integration.sglang import register

    register()
    registry = modules["sglang.srt.constrained.base_grammar_backend"].GRAMMAR_BACKEND_REGISTRY

    def make(eos=frozenset({2}), *, tp_size=1, size=1280, **serving):
        sglang.SERVING.__dict__.update(serving)
        return registry["stackmask"](SimpleNamespace(tp_size=tp_size), tokenizer, size, eos)

    return make


@pytest.fixture
def backend(server):
    return server()


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def new(backend, kind, text, *, reasoning=False):
    request = sglang.Request(kind, text, reasoning=reasoning)
    sglang.admit(backend, request)
    assert not request.failure
    return request.grammar


def failure(backend, kind, text):
    request = sglang.Request(kind, text)
    sglang.admit(backend, request)
    return request.failure


def bits(row):
    return {32 * place + bit for place, word in enumerate(row.tolist()) for bit in range(32) if word >> bit & 1}


def allowed(grammar, size=1280):
    return bits(sglang.fill([grammar], size)[0])


def accepts(grammar, tokens):
    """Whether tokens and the end fit, on a copy."""
    fork = grammar.copy()
    kept, _ = sglang.commit(fork, [*tokens, 2])
    return kept == [*tokens, 2] and fork.is_terminated()


class TestRegistration:
    """`register`, and the SGLang that it takes."""

    def test_nothing_of_sglang_is_imported_by_the_package(self):
        """The entry point can be loaded where there is no SGLang; calling it says what is missing."""
        import stackmask.integration.sglang as package

        assert "sglang" not in sys.modules
        with pytest.raises(ModuleNotFoundError, match="sglang"):
            package.register()

    def test_the_entry_point_is_declared(self):
        """The package metadata names `register` in SGLang's group."""
        text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
        assert re.search(r'"sglang\.srt\.plugins"\]\nstackmask = "stackmask\.integration\.sglang:register"', text)

    def test_it_is_idempotent(self, modules):
        """Registering twice adds one choice and one backend."""
        from stackmask.integration.sglang import register

        register()
        register()
        assert modules["sglang.srt.arg_groups.choices"].GRAMMAR_BACKEND_CHOICES == ["xgrammar", "none", "stackmask"]
        assert list(modules["sglang.srt.constrained.base_grammar_backend"].GRAMMAR_BACKEND_REGISTRY) == ["stackmask"]

    @pytest.mark.parametrize("version", ["0.5.22", "0.5.24", "1.0.0", "0.6.0rc1", "0.0.0.dev0", "main"])
    def test_other_versions_are_refused(self, modules, version):
        """The error has the tested range; SGLang has no such backend then."""
        from stackmask.integration.sglang import IncompatibleVersionError, register

        modules["sglang.version"].__version__ = version
        with pytest.raises(IncompatibleVersionError, match=r"tested with SGLang 0\.5\.23 to 0\.5\.23|not a release"):
            register()
        assert "stackmask" not in modules["sglang.srt.arg_groups.choices"].GRAMMAR_BACKEND_CHOICES

    @pytest.mark.parametrize("version", ["0.5.23", "0.5.23.post1", "0.5.23+cu130"])
    def test_builds_of_the_tested_version_are_taken(self, modules, version):
        """A post release or a local build counts as its version."""
        from stackmask.integration.sglang import register

        modules["sglang.version"].__version__ = version
        register()

    def test_another_version_can_be_tried(self, modules, monkeypatch, caplog):
        """With the override it is a warning; names are still checked."""
        from stackmask.integration.sglang import IncompatibleVersionError, register

        monkeypatch.setenv("STACKMASK_SGLANG_UNTESTED", "1")
        modules["sglang.version"].__version__ = "0.5.24"
        register()
        assert "0.5.24" in caplog.text
        del modules["sglang.srt.utils.common"].is_pin_memory_available
        with pytest.raises(IncompatibleVersionError, match="is_pin_memory_available"):
            register()

    def test_missing_modules_are_named(self, modules, monkeypatch):
        """A module that is gone is named with what was used of it."""
        from stackmask.integration.sglang import IncompatibleVersionError, register

        monkeypatch.delitem(sys.modules, "sglang.srt.utils.common")
        monkeypatch.setattr(modules["sglang.srt.utils"], "__path__", [], raising=False)
        with pytest.raises(IncompatibleVersionError, match=r"sglang\.srt\.utils\.common\.is_pin_memory_available"):
            register()

    def test_a_missing_library_of_sglang_is_its_own_error(self, modules, monkeypatch, tmp_path):
        """What SGLang needs and lacks is not taken for another version."""
        from stackmask.integration.sglang import register

        (tmp_path / "common.py").write_text("import no_such_library\n")
        monkeypatch.delitem(sys.modules, "sglang.srt.utils.common")
        monkeypatch.setattr(modules["sglang.srt.utils"], "__path__", [str(tmp_path)], raising=False)
        with pytest.raises(ModuleNotFoundError, match="no_such_library"):
            register()

    def test_other_parameters_are_refused(self, modules, monkeypatch):
        """A function that takes something else is named with what it takes."""
        from stackmask.integration.sglang import IncompatibleVersionError, register

        base = modules["sglang.srt.constrained.base_grammar_backend"]
        monkeypatch.setattr(base, "register_grammar_backend", lambda name: None)
        with pytest.raises(IncompatibleVersionError, match=r"register_grammar_backend takes \(name\), not \(name, init_func\)"):
            register()


class TestRequests:
    """What requests ask for."""

    def test_every_kind(self, backend, tokenizer):
        """Each of SGLang's constraints accepts what it should and refuses what it should not."""
        tag = json.dumps({"type": "structural_tag", "format": TAG})
        for kind, text, good, wrong in [
            ("json", PERSON, '{"name": "Ada"}', '{"name": "Eve"}'),
            ("json", "$$ANY$$", "[1, {}]", "[1, {]"),
            ("regex", "[ab]+", "abba", "abc"),
            ("ebnf", 'root ::= "x" root | "y"', "xxy", "xx"),
            ("full_assistant_ebnf", 'root ::= "x"', "x", "y"),
            ("structural_tag", tag, "<f>1</f>", "<f>2</f>"),
        ]:
            grammar = new(backend, kind, text)
            assert accepts(grammar, ids(tokenizer, good)), kind
            assert not accepts(grammar, ids(tokenizer, wrong)), kind

    @pytest.mark.parametrize(
        ("kind", "text", "message"),
        [
            ("json", '{"type": "objekt"}', "objekt"),
            ("json", "{", "not JSON"),
            ("regex", "(", "line 1"),
            ("ebnf", "root ::= nothing", "nothing"),
            ("structural_tag", "{", "not JSON"),
            ("structural_tag", '{"type": "structural_tag", "format": {"type": "poem"}}', "poem"),
        ],
    )
    def test_refusals_have_reasons_and_are_kept(self, backend, kind, text, message):
        """A wrong grammar is told to its request, and to the next one at once."""
        assert message in failure(backend, kind, text)
        again = sglang.Request(kind, text)
        assert sglang.admit(backend, again) == 1
        assert message in again.failure
        assert again.grammar.grammar_stats.is_grammar_aborted

    def test_a_slow_grammar_is_refused(self, server, monkeypatch):
        """Our own budget ends a compilation, long before SGLang would."""
        monkeypatch.setenv("STACKMASK_SGLANG_COMPILE_SECONDS", "0.02")
        slow = json.dumps({"enum": [f"word{index}" for index in range(100_000)]})
        request = sglang.Request("json", slow)
        backend = server()
        sglang.admit(backend, request)
        assert "compil" in request.failure
        assert request.grammar.grammar_stats.num_timeout == 1
        assert new(backend, "regex", "a") is not None

    def test_compiling_in_a_process(self, server, monkeypatch, tokenizer):
        """By default, a process of its own compiles."""
        from stackmask.integration.processes.pool import WorkerCompiler

        monkeypatch.delenv("STACKMASK_SGLANG_WORKERS")
        backend = server()
        assert isinstance(backend.compiler, WorkerCompiler)
        assert accepts(new(backend, "json", PERSON), ids(tokenizer, '{"name": "Bo"}'))
        assert "objekt" in failure(backend, "json", '{"type": "objekt"}')
        backend.compiler._executor.shutdown()  # the worker that was started in advance may still be at it
        backend.compiler.close()

    def test_statistics(self, backend):
        """What was compiled has its time and type; copies say that they are hits."""
        first = new(backend, "ebnf", 'root ::= "ab"')
        assert (first.grammar_stats.dispatch_type, first.grammar_stats.ebnf_size) == ("ebnf", 13)
        assert first.grammar_stats.compilation_time > 0
        assert not first.grammar_stats.is_cache_hit
        first.grammar_stats.tree_traversal_time.append(1.0)
        second = new(backend, "ebnf", 'root ::= "ab"')
        assert second.grammar_stats.is_cache_hit
        assert second.grammar_stats.tree_traversal_time == []

    def test_reset_forgets(self, backend):
        """Flushing the cache leaves nothing behind."""
        new(backend, "regex", "a")
        backend.reset()
        assert len(backend.cache) == backend.cache.weight == backend.compiler.cache_info.entries == 0


class TestVocabulary:
    """Tokenizers of SGLang."""

    def test_stop_tokens_are_the_models(self, server):
        """The model's end tokens end an answer; without any, those of the tokenizer."""
        assert server({1, 2}).vocabulary.stop_token_ids == (1, 2)
        assert server(None).vocabulary.stop_token_ids == (2,)

    def test_padding_is_never_allowed(self, server):
        """The mask is as wide as the logits; ids beyond the tokenizer stay forbidden."""
        grammar = new(server(size=1400), "json", "$$ANY$$")
        mask = sglang.fill([grammar], 1400)
        assert mask.shape == (1, 44)
        assert max(bits(mask[0])) < 1280

    def test_a_wrapper_around_tiktoken(self, modules):
        """SGLang's own class for tiktoken files is read through."""
        tiktoken = pytest.importorskip("tiktoken")
        from stackmask.integration.sglang.backend import create

        ranks = {bytes([value]): value for value in range(256)}
        encoding = tiktoken.Encoding("bytes", pat_str=".", mergeable_ranks=ranks, special_tokens={"<|eos|>": 256})
        wrapped = SimpleNamespace(tokenizer=encoding, eos_token_id=256)
        for eos in (None, {256}):
            made = create(ARGUMENTS, wrapped, 300, eos)
            assert (made.vocabulary.stop_token_ids, made.vocabulary.size) == ((256,), 300)


class TestWhitespace:
    """SGLang's options for JSON."""

    @pytest.mark.parametrize(
        ("options", "good", "wrong"),
        [
            ({}, "[1, 2]", "[1,  2]"),
            ({"constrained_json_disable_any_whitespace": True}, "[1,2]", "[1, 2]"),
            ({"constrained_json_max_whitespace_cnt": 1}, "[1, 2]", "[1,  2]"),
            ({"constrained_json_max_whitespace_cnt": 0}, "[1,2]", "[1, 2]"),
            ({"constrained_json_whitespace_pattern": "\\n?"}, "[1,\n2]", "[1, 2]"),
        ],
    )
    def test_options_are_enforced(self, server, tokenizer, options, good, wrong):
        """JSON follows the option, and so does the JSON in tags where the option is a count; without one, tags have any blanks."""
        backend = server(**options)
        grammar = new(backend, "json", '{"const": [1, 2]}')
        assert accepts(grammar, ids(tokenizer, good))
        assert not accepts(grammar, ids(tokenizer, wrong))
        if "constrained_json_whitespace_pattern" not in options:
            tag = TAG | {"content": {"type": "json_schema", "json_schema": {"const": [1, 2]}}}
            grammar = new(backend, "structural_tag", json.dumps({"type": "structural_tag", "format": tag}))
            assert accepts(grammar, ids(tokenizer, f"<f>{good}</f>"))
            assert accepts(grammar, ids(tokenizer, f"<f>{wrong}</f>")) == (not options)

    def test_two_options_are_refused(self, server):
        """Options that contradict each other stop the server, and so does a pattern that is wrong."""
        with pytest.raises(ValueError, match="takes one"):
            server(constrained_json_disable_any_whitespace=True, constrained_json_max_whitespace_cnt=2)
        with pytest.raises(ValueError, match="group"):
            server(
                constrained_json_disable_any_whitespace=False,
                constrained_json_max_whitespace_cnt=None,
                constrained_json_whitespace_pattern="(",
            )


class TestGrammar:
    """One request's grammar."""

    def test_it_terminates_by_the_stop_token_only(self, backend, tokenizer):
        """Being complete is not being terminated: SGLang would drop the last token of the answer."""
        grammar = new(backend, "regex", "ab")
        for token in ids(tokenizer, "ab"):
            assert not grammar.is_terminated()
            grammar.accept_token(token)
        assert not grammar.is_terminated()
        assert allowed(grammar) == {2}
        grammar.accept_token(2)
        assert grammar.is_terminated()
        grammar.rollback(1)
        assert not grammar.is_terminated()
        assert allowed(grammar) == {2}

    def test_tokens_after_the_end_can_be_rolled_back(self, backend, tokenizer):
        """They change nothing, but they count."""
        grammar = new(backend, "regex", "ab")
        tokens = [*ids(tokenizer, "ab"), 2, 7, 7]
        for token in tokens:
            grammar.accept_token(token)
        assert grammar.copy().is_terminated()
        grammar.rollback(2)
        assert grammar.is_terminated()
        grammar.rollback(len(tokens) - 2)
        assert not grammar.is_terminated()
        assert accepts(grammar, ids(tokenizer, "ab"))

    def test_a_wrong_token_is_a_value_error(self, backend, tokenizer):
        """The error says what was expected; nothing has changed."""
        grammar = new(backend, "regex", "ab")
        before = allowed(grammar)
        kept, reason = sglang.commit(grammar, ids(tokenizer, "b"))
        assert kept == []
        assert "expected is 'a'" in reason
        assert allowed(grammar) == before
        for token in (-1, 1280):
            with pytest.raises(ValueError, match=str(token)):
                grammar.accept_token(token)

    def test_the_current_token(self, backend, tokenizer):
        """It is None exactly while no token is accepted, by which disaggregated servers tell."""
        grammar = new(backend, "regex", "ab*")
        a, b = ids(tokenizer, "a")[0], ids(tokenizer, "b")[0]
        assert grammar.current_token is None
        grammar.accept_token(a)
        assert grammar.current_token == a
        assert grammar.copy().current_token == a
        grammar.accept_token(b)
        grammar.rollback(1)
        assert grammar.current_token is not None
        grammar.rollback(1)
        assert grammar.current_token is None

    def test_copies_go_their_own_way(self, backend, tokenizer):
        """A copy is in the same state, and then alone."""
        grammar = new(backend, "regex", "[ab]{3}")
        a = ids(tokenizer, "a")[0]
        grammar.accept_token(a)
        fork = grammar.copy()
        fork.finished = True
        assert allowed(fork) == set(range(1280)) | allowed(fork)  # a finished row is left as it was
        assert not grammar.finished
        fork.accept_token(a)
        assert grammar.matcher.num_accepted == 1

    def test_jump_forward(self, backend, tokenizer):
        """Text that must come is given as text, and answers can be cut into other tokens."""
        grammar = new(backend, "regex", "the answer is (yes|no)")
        helper = grammar.try_jump_forward(tokenizer)
        assert grammar.jump_forward_str_state(helper) == ("the answer is ", -1)
        old = ids(tokenizer, "th")
        for token in old:
            grammar.accept_token(token)
        grammar.jump_and_retokenize(old, ids(tokenizer, "the answer is "), -1)
        assert grammar.try_jump_forward(tokenizer) is None
        grammar.jump_and_retokenize(ids(tokenizer, "the answer is "), old, -1)
        assert grammar.try_jump_forward(tokenizer) is not None
        with pytest.raises(ValueError, match="expected"):
            grammar.jump_and_retokenize(old, [*old, *ids(tokenizer, "x")], -1)

    def test_it_is_short_in_logs(self, backend):
        """A specification of a megabyte is not printed."""
        assert len(repr(new(backend, "regex", "a" * 5000))) < 200


class TestMasks:
    """Masks of batches and of trees of drafts."""

    def test_a_batch(self, backend, tokenizer):
        """Rows are exact for grammars, and untouched for free, finished and terminated ones."""
        grammars = [
            new(backend, "regex", "[ab]+"),
            None,
            new(backend, "json", PERSON),
            new(backend, "regex", "a"),
            new(backend, "regex", "a"),
        ]
        grammars[3].finished = True
        for token in [*ids(tokenizer, "a"), 2]:
            grammars[4].accept_token(token)
        mask = sglang.fill(grammars, 1280)
        assert mask.dtype == torch.int32
        for row in (1, 3, 4):
            assert (mask[row] == -1).all()
        for row in (0, 2):
            for token in range(1280):
                kept, _ = sglang.commit(grammars[row].copy(), [token])
                assert (token in bits(mask[row])) == bool(kept)
        logits = torch.zeros(5, 1280)
        grammars[0].apply_vocab_mask(logits=logits, vocab_mask=grammars[0].move_vocab_mask(mask, "cpu"))
        assert [int(torch.isfinite(row).sum()) for row in logits] == [len(bits(row)) for row in mask]

    def test_others_grammars_fill_their_own_rows(self, backend):
        """A batch may hold wrappers and grammars of other types."""
        ours = new(backend, "regex", "a")
        other = SimpleNamespace(fill_vocab_mask=lambda mask, row: mask[row].fill_(5))
        mask = ours.allocate_vocab_mask(1280, 3, "cpu")
        ours.fill_vocab_mask_batched([sglang.GrammarRow(0, other), sglang.GrammarRow(2, ours)], mask)
        assert (mask[0] == 5).all()
        assert (mask[1] == -1).all()
        assert len(bits(mask[2])) == 1
        ours.reset_vocab_mask(mask)
        assert (mask == -1).all()

    def test_a_tree_of_drafts(self, backend, tokenizer):
        """Right, wrong and stop tokens, siblings and chains: masks are those of a copy on that path, and the grammar stays where it is."""
        generator = random.Random(3)
        grammar = new(backend, "json", PERSON)
        compared = 0
        for _ in range(20):
            tokens, child, sibling, parents = [0], [-1], [-1], [-1]
            paths = [[]]
            for node in range(1, 16):
                parent = generator.randrange(max(0, node - 3), node)
                fork = grammar.copy()
                kept, _ = sglang.commit(fork, paths[parent])
                right = sorted(allowed(fork)) if kept == paths[parent] and not fork.is_terminated() else [2]
                tokens.append(generator.choice([*right[:5], right[0], generator.randrange(1280)]))
                child.append(-1)
                sibling.append(child[parent])  # the newest sibling comes first
                child[parent] = node
                parents.append(parent)
                paths.append([*paths[parent], tokens[node]])
            mask = grammar.allocate_vocab_mask(1280, 16, "cpu")
            sglang.walk(tokens, child, sibling, grammar, mask)
            assert grammar.matcher.num_accepted == 0
            for node, path in enumerate(paths):
                fork = grammar.copy()
                kept, _ = sglang.commit(fork, path)
                if kept == path and not fork.is_terminated():
                    assert bits(mask[node]) == allowed(fork)
                    compared += 1
                else:
                    assert (mask[node] == -1).all()
        assert compared > 50

    def test_the_token_filter(self, modules):
        """Tokens are allowed or forbidden in a row, the sign bit of a word among them; the rest is kept or reset."""
        from stackmask.integration.sglang.backend import Backend

        mask = torch.full((2, 3), -1, dtype=torch.int32)
        Backend.set_token_filter(mask, [0, 31, 32, 95], 1)
        assert bits(mask[1]) == {0, 31, 32, 95}
        assert (mask[0] == -1).all()
        Backend.set_token_filter(mask, [31, 95], 1, is_allowed=False, reset_vocab_mask=False)
        assert bits(mask[1]) == {0, 32}
        Backend.set_token_filter(mask, [63], 1, reset_vocab_mask=False)
        assert bits(mask[1]) == {0, 32, 63}
        Backend.set_token_filter(mask, [31], 1, is_allowed=False)
        assert bits(mask[1]) == set(range(96)) - {31}

    def test_a_buffer_for_masks(self, backend):
        """SGLang can keep a mask to use it again."""
        buffer = backend.initialize_vocab_mask_buffer("decode", 1280, 4, "cpu")
        assert buffer.shape == (4, 40)
        assert sglang.BUFFERS.pop("decode") is buffer

    def test_a_limit_ends_one_request_and_no_scheduler(self, server, tokenizer):
        """A grammar that runs out of stack allows one token that nothing accepts; the others of its batch are masked as ever."""
        backend = server()
        backend._limits = Limits(stack_depth=60)
        backend.compiler = backend._compiler(backend.vocabulary)
        deep = new(backend, "ebnf", 'root ::= "[" root "]" | "1"')
        fine = new(backend, "regex", "a")
        bracket = ids(tokenizer, "[")[0]
        reason = ""
        for _ in range(100):
            mask = sglang.fill([deep, fine], 1280)
            assert len(bits(mask[1])) == 1
            if bracket not in bits(mask[0]):
                (only,) = bits(mask[0])
                assert backend.vocabulary.token_bytes(only) is None
                assert only != 2
                _, reason = sglang.commit(deep, [only])
                break
            _, reason = sglang.commit(deep, [bracket])
            if reason:
                break
        assert "stack" in reason

    def test_a_limit_while_filling(self, backend, monkeypatch):
        """The same where filling is what runs into it, in a batch or alone."""
        from stackmask.integration.sglang import grammar as module

        def refuse(*_):
            raise LimitError("too deep", limit="stack_depth")

        grammar, fine = new(backend, "regex", "a"), new(backend, "regex", "b")
        grammar.matcher = SimpleNamespace(
            fill_next_token_bitmask=refuse, is_terminated=lambda: False, accept_token=lambda token: False, num_accepted=0
        )
        monkeypatch.setattr(module, "fill_bitmasks", refuse)
        mask = sglang.fill([grammar, fine], 1280)
        assert len(bits(mask[0])) == len(bits(mask[1])) == 1
        assert sglang.commit(grammar, bits(mask[0])) == ([], "too deep")


class TestReasoning:
    """The wrapper around a grammar that follows thinking."""

    def test_the_grammar_begins_after_the_thinking(self, server, tokenizer):
        """Everything is allowed while thinking; rolling back crosses the end of it."""
        backend = server(reasoning_parser="qwen3")
        grammar = new(backend, "regex", "[ab]{2}", reasoning=True)
        end, a = tokenizer.think_end, ids(tokenizer, "a")[0]
        everything = set(range(1280))
        assert allowed(grammar) == everything
        for token in [5, 6, end]:
            grammar.accept_token(token)
        inside = allowed(grammar)
        assert inside != everything
        grammar.accept_token(a)
        grammar.rollback(3)
        assert allowed(grammar) == everything
        for token in [6, end, a, a, 2]:
            grammar.accept_token(token)
        assert grammar.is_terminated()
        direct = new(backend, "regex", "[ab]{2}")
        assert allowed(direct) == inside
        assert backend.cache.weight > 0
        assert backend.grammar_backend.compiler.cache_info.misses == 1

    def test_a_batch_of_wrappers(self, server, tokenizer):
        """Wrapped grammars are filled in a batch with each other."""
        backend = server(reasoning_parser="qwen3")
        mask = sglang.fill([new(backend, "regex", "a", reasoning=True), None, new(backend, "regex", "a")], 1280)
        assert (mask[:2] == -1).all()
        assert len(bits(mask[2])) == 1

    def test_failures_pass_through(self, server):
        """A refusal is one for the wrapper too, and flushing reaches both."""
        backend = server(reasoning_parser="qwen3", enable_strict_thinking=True)
        assert "objekt" in failure(backend, "json", '{"type": "objekt"}')
        assert backend._enable_strict_thinking
        new(backend, "regex", "a")
        backend.reset()
        assert len(backend.cache) == backend.grammar_backend.compiler.cache_info.entries == 0

    def test_a_parser_without_an_end(self, server):
        """Where the end of the thinking has no tokens there is no wrapper, as with SGLang's own backends."""
        assert not hasattr(server(reasoning_parser="silent"), "grammar_backend")


class TestFrames:
    """Answer frames."""

    def frame(self, content):
        """An answer frame as SGLang has them: two thoughts at most, and the answer."""
        thoughts = {"type": "any_tokens", "exclude_tokens": [6], "max_tokens": 2}
        message = {"type": "sequence", "elements": [token(3), thoughts, token(6)]}
        return {
            "type": "structural_tag",
            "format": {"type": "sequence", "elements": [{"type": "optional", "content": message}, token(4), content, token(6)]},
        }

    @pytest.mark.parametrize(
        ("kind", "text", "answer"), [("regex", "yes|no", "yes"), ("json", '{"const": [1]}', "[1]"), ("ebnf", 'root ::= "x"', "x")]
    )
    def test_a_grammar_in_a_frame(self, backend, tokenizer, kind, text, answer):
        """The frame's tokens surround it, after thoughts or without."""
        backend.reserve_framing_tokens([3, 4, 6])
        framed = backend.compile_framed_grammar(new(backend, kind, text), self.frame)
        said = [4, *ids(tokenizer, answer), 6]
        assert accepts(framed, said)
        assert accepts(framed, [3, 9, 9, 6, *said])
        assert not accepts(framed, [3, 9, 9, 9, 6, *said])
        assert not accepts(framed, ids(tokenizer, answer))
        assert framed.grammar_stats.dispatch_type == "structural_tag"

    @pytest.mark.parametrize(("extra", "allowed"), [("schema", True), ("closed", False)])
    def test_closed_objects(self, tokenizer, extra, allowed, monkeypatch, server):
        """Undeclared keys, by the setting, in an answer and in a frame."""
        monkeypatch.setenv("STACKMASK_SGLANG_EXTRA_PROPERTIES", extra)
        backend = server()
        backend.reserve_framing_tokens([3, 4, 6])
        grammar = new(backend, "json", '{"type": "object", "properties": {"a": {}}}')
        said = ids(tokenizer, '{"b":1}')
        assert accepts(grammar, said) == allowed
        assert accepts(backend.compile_framed_grammar(grammar, self.frame), [4, *said, 6]) == allowed

    @pytest.mark.parametrize(("flag", "allowed"), [("", True), ("0", True), ("1", False)])
    def test_distinct_keys(self, tokenizer, flag, allowed, monkeypatch, server):
        """A key that comes twice, by the setting, in an answer and in a frame."""
        monkeypatch.setenv("STACKMASK_SGLANG_DISTINCT_KEYS", flag)
        backend = server()
        backend.reserve_framing_tokens([3, 4, 6])
        for schema in ('{"type": "object"}', "$$ANY$$"):
            grammar = new(backend, "json", schema)
            for text, fits in (('{"b":1,"c":1}', True), ('{"b":1,"b":1}', allowed)):
                said = ids(tokenizer, text)
                assert accepts(grammar, said) == fits
                assert accepts(backend.compile_framed_grammar(grammar, self.frame), [4, *said, 6]) == fits

    def test_reserved_tokens_have_no_text(self, backend, tokenizer):
        """In a frame, a token that is reserved is no text even where it has some; outside, it still is."""
        (word,) = ids(tokenizer, "in")
        grammar = new(backend, "regex", "in")
        assert word in allowed(grammar)
        backend.reserve_framing_tokens([3, 4, 6, word])
        framed = backend.compile_framed_grammar(grammar, self.frame)
        framed.accept_token(4)
        assert word not in allowed(framed)
        assert accepts(framed, [*ids(tokenizer, "i"), *ids(tokenizer, "n"), 6])
        assert word in allowed(new(backend, "regex", "in"))

    def test_what_cannot_be_framed(self, server):
        """A structural tag is refused with a reason."""
        backend = server()
        tag = new(backend, "structural_tag", json.dumps({"type": "structural_tag", "format": TAG}))
        assert "structural_tag" in backend.compile_framed_grammar(tag, self.frame).error_message

    @pytest.mark.parametrize(
        ("options", "good", "wrong"),
        [
            ({}, "[1, 2]", "[1,  2]"),
            ({"constrained_json_disable_any_whitespace": True}, "[1,2]", "[1, 2]"),
            ({"constrained_json_max_whitespace_cnt": 2}, "[1,  2]", "[1,   2]"),
            ({"constrained_json_whitespace_pattern": "\\n?"}, "[1,\n2]", "[1, 2]"),
        ],
    )
    def test_whitespace_in_a_frame(self, server, tokenizer, options, good, wrong):
        """The option holds there too."""
        backend = server(**options)
        framed = backend.compile_framed_grammar(new(backend, "json", '{"const": [1, 2]}'), self.frame)
        assert accepts(framed, [4, *ids(tokenizer, good), 6])
        assert not accepts(framed, [4, *ids(tokenizer, wrong), 6])


def token(index):
    return {"type": "token", "token": index}


class TestTags:
    """Structural tags as SGLang writes them."""

    def complete(self, tag, blanks=None):
        """The tag with what was left out."""
        from stackmask.integration.sglang.answer_frames import completed_tag

        return completed_tag(json.dumps(tag), blanks, Limits())

    def test_missing_schemas(self, modules):
        """Null stands for any JSON, at any depth, and not inside a schema."""
        schema = {"const": {"type": "json_schema"}}
        tag = {"format": {"elements": [{"type": "json_schema", "json_schema": None}, {"type": "json_schema", "json_schema": schema}]}}
        tag["format"]["elements"].append({"type": "qwen_xml_parameter"})
        assert self.complete(tag)["format"]["elements"] == [
            {"type": "json_schema", "json_schema": {}},
            {"type": "json_schema", "json_schema": schema},
            {"type": "qwen_xml_parameter", "json_schema": {}},
        ]

    def test_blanks(self, modules):
        """A count is put where there is none and JSON is written as JSON."""
        tag = [{"type": "json_schema"}, {"type": "json_schema", "max_whitespace_cnt": 7}, {"type": "json_schema", "style": "qwen_xml"}]
        assert [item.get("max_whitespace_cnt") for item in self.complete(tag, 1)] == [1, 7, None]

    def test_the_older_form(self, backend, tokenizer):
        """It is triggered tags, with at least one where that is asked for."""
        older = {"type": "structural_tag", "structures": [{"begin": "<f>", "schema": None, "end": "</f>"}], "triggers": ["<f"]}
        free = new(backend, "structural_tag", json.dumps(older))
        assert accepts(free, ids(tokenizer, "words"))
        assert accepts(free, ids(tokenizer, 'words <f>{"any": 1}</f> words'))
        once = new(backend, "structural_tag", json.dumps(older | {"at_least_one": True}))
        assert not accepts(once, ids(tokenizer, "words"))
        assert accepts(once, ids(tokenizer, "<f>[]</f>"))

    @pytest.mark.parametrize(
        "tag",
        [
            [],
            "text",
            {"structures": {}, "triggers": []},
            {"structures": [1], "triggers": []},
            {"structures": [], "triggers": [], "speed": 1},
            {"structures": [{"begin": "<f>", "end": "x", "speed": 3}], "triggers": ["<f"]},
            {"structures": [{"begin": "<f>", "end": "x"}]},
        ],
    )
    def test_wrong_ones_are_refused(self, backend, tag):
        """A field that nobody knows is an error, and so is one that is missing."""
        assert failure(backend, "structural_tag", json.dumps(tag))

    def test_only_some_kinds_stand_in_frames(self, modules):
        """The error names those that do."""
        from stackmask.integration.sglang.answer_frames import content_of

        with pytest.raises(StructuralTagError, match="json, regex, ebnf can"):
            content_of("structural_tag", "{}")


class Weighted:
    """A grammar of a given weight, with tables that grow by use."""

    def __init__(self, static_size=1000, table_size=0):
        self.static_size, self.table_size = static_size, table_size
        self.renewals = 0

    @property
    def has_grown(self):
        """Whether there is anything to give back."""
        return self.table_size > 10

    def renew(self):
        """Count."""
        self.renewals += 1
        self.table_size = 10


class TestTable:
    """The grammars that are kept."""

    def test_the_oldest_go_first(self, modules):
        """Reading makes an entry young; the weight is what entries, specifications and grammars take."""
        from stackmask.integration.sglang.grammar_table import ENTRY_BYTES, GrammarTable

        table = GrammarTable(3 * (ENTRY_BYTES + 1100))
        for name in "abc":
            table["regex", name * 90] = Weighted()
        assert table.get(("regex", "a" * 90)) is not None
        table["regex", "d" * 90] = Weighted()
        assert [key[1][0] for key in table] == ["c", "a", "d"]
        assert table.weight == 3 * (ENTRY_BYTES + 5 + 90 + 1000)
        assert table.get(("regex", "b" * 90)) is None
        table["regex", "d" * 90] = Weighted(0)
        assert table.weight == 3 * (ENTRY_BYTES + 5 + 90) + 2000
        table.pop(("regex", "c" * 90))
        assert table.pop("nothing") is None
        table.clear()
        assert (len(table), table.weight) == (0, 0)

    def test_failures_weigh_their_messages(self, modules):
        """A table of errors is bounded too; what is larger than the table is not kept."""
        from stackmask.integration.sglang.grammar_table import ENTRY_BYTES, GrammarTable

        table = GrammarTable(ENTRY_BYTES + 500)
        table["regex", "("] = sglang.InvalidGrammarObject("x" * 100)
        assert table.weight == ENTRY_BYTES + 6 + 100
        table["regex", "x" * 1000] = sglang.InvalidGrammarObject()
        assert len(table) == 0

    def test_what_is_kept_does_not_depend_on_tables(self, modules):
        """Tables that grew differently leave the same entries, so that all ranks have the same."""
        from stackmask.integration.sglang.grammar_table import GrammarTable

        small, large = GrammarTable(20_000), GrammarTable(20_000)
        for index in range(40):
            small[str(index % 7)] = Weighted()
            large[str(index % 7)] = Weighted(table_size=index * 1000)
            assert small.get(str(index * 3 % 7)) is None or large.get(str(index * 3 % 7)) is not None
            assert list(small) == list(large)

    def test_tables_are_emptied(self, modules):
        """The grammars that were not used for longest lose their tables; wrappers are looked into."""
        from stackmask.integration.sglang.grammar_table import GrammarTable

        table = GrammarTable(100_000)
        grammars = [Weighted(table_size=30_000) for _ in range(5)]
        for index, grammar in enumerate(grammars):
            table[str(index)] = SimpleNamespace(grammar=grammar) if index % 2 else grammar
        assert [grammar.renewals for grammar in grammars] == [1, 1, 0, 0, 0]

    def test_a_grammar_is_renewed(self, backend, tokenizer, monkeypatch):
        """Tables are gone, masks are the same, and copies made before go on."""
        grammar = new(backend, "json", PERSON)
        (kept,) = backend.cache.values()
        written = sglang.fill([grammar], 1280)
        assert accepts(grammar, ids(tokenizer, '{"name": "Ada", "age": 31}'))
        before = kept.table_size
        assert kept.has_grown
        kept.renew()
        assert not kept.has_grown
        assert kept.table_size < before
        assert torch.equal(sglang.fill([kept.copy()], 1280), written)
        assert torch.equal(sglang.fill([grammar], 1280), written)

        def refuse(*_):
            raise LimitError("no time", limit="compile_seconds")

        monkeypatch.setattr(type(kept.compiled), "build", refuse)
        compiled = kept.compiled
        kept.renew()
        assert kept.compiled is compiled


class TestRanks:
    """Several ranks of one server."""

    SLOW = json.dumps({"enum": [f"word{index}" for index in range(100_000)]})

    @pytest.mark.parametrize("options", [{}, {"reasoning_parser": "qwen3"}])
    def test_a_failure_for_want_of_time_is_held_back(self, server, monkeypatch, options):
        """With several ranks SGLang's own clock decides, so that all of them fail; other failures are the same everywhere."""
        monkeypatch.setenv("STACKMASK_SGLANG_COMPILE_SECONDS", "0.02")
        backend = server(tp_size=2, **options)
        slow, wrong = sglang.Request("json", self.SLOW), sglang.Request("regex", "(")
        sglang.admit(backend, slow, wrong, polls=100)
        assert slow.failure == "timed out"
        assert "group" in wrong.failure
        again = sglang.Request("json", self.SLOW)
        assert sglang.admit(backend, again) == 1
        assert again.failure == "timed out"
        assert new(backend, "regex", "a") is not None

    def test_later_stages_of_a_pipeline_have_more_time(self, server):
        """They do what the first decided, so they hold nothing back."""
        first = server(tp_size=2)._settings
        sglang.PARALLEL.pp_rank = 1
        later = server(tp_size=2)._settings
        assert later.compile_seconds == 10 * first.compile_seconds
        assert (first.ranks_agree, later.ranks_agree) == (True, False)

    def test_futures_end_as_those_they_stand_for(self, modules):
        """Results, errors and cancellations pass, the last both ways."""
        from stackmask.integration.sglang.backend import Overrun, _held_back

        inner: Future = Future()
        seen = _held_back(inner)
        inner.set_result(1)
        assert seen.result(0) == 1
        inner = Future()
        seen = _held_back(inner)
        inner.set_exception(KeyError("x"))
        assert isinstance(seen.exception(0), KeyError)
        inner = Future()
        seen = _held_back(inner)
        inner.cancel()
        inner.set_running_or_notify_cancel()
        assert seen.cancelled()
        inner = Future()
        seen = _held_back(inner)
        seen.cancel()
        assert inner.cancelled()
        inner = Future()
        seen = _held_back(inner)
        inner.set_running_or_notify_cancel()
        seen.cancel()
        inner.set_result(1)
        assert seen.cancelled()
        inner = Future()
        seen = _held_back(inner)
        inner.set_result(Overrun("slow"))
        time.sleep(0.01)
        assert not seen.done()


def test_settings_from_the_environment(modules):
    """Options of our own are environment variables; the budget is never more than half of SGLang's patience."""
    from stackmask.integration.sglang.backend import Settings

    given = Settings.from_server(ARGUMENTS, {"STACKMASK_SGLANG_CACHE_MB": "3", "STACKMASK_SGLANG_COMPILE_SECONDS": "1000"})
    assert (given.cache_bytes, given.compile_seconds, given.workers) == (3 << 20, 25.0, 4)
    assert Settings.from_server(ARGUMENTS, {}).compile_seconds == 10
    assert Settings.from_server(ARGUMENTS, {}).forced_drafts
    assert not Settings.from_server(ARGUMENTS, {"STACKMASK_SGLANG_FORCED_DRAFTS": "0"}).forced_drafts


def test_logits_on_other_devices(modules, monkeypatch):
    """Where SGLang has a kernel of its own for the device, it is called."""
    from stackmask.integration.sglang.grammar import apply_vocab_mask

    calls = []
    for name in ("sglang.kernels", "sglang.kernels.ops", "sglang.kernels.ops.grammar", "sglang.kernels.ops.grammar.bitmask_ops"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["sglang.kernels.ops.grammar.bitmask_ops"].apply_token_bitmask_inplace_triton = lambda *given: calls.append(given)
    logits = SimpleNamespace(device=SimpleNamespace(type="cuda"))
    apply_vocab_mask(logits, "mask")
    assert calls == [(logits, "mask")]
