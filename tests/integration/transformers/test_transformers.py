"""`model.generate` stays inside the grammar, whatever the decoding strategy, and assistance changes nothing."""

import re
import warnings

import pytest

from stackmask.integration.compiler import Compiler
from stackmask.pda.exceptions import GrammarError
from stackmask.pda.vocabulary import Vocabulary

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from stackmask.integration.transformers import GrammarLogitsProcessor  # noqa: E402

torch.set_num_threads(1)  # the models are far too small for more

EOS, PAD, SIZE = 270, 271, 288
WORDS = [b'"name"', b'": "', b'{"', b'", "', b"age", b"12", b"}", b"ab", b'"}', b"nam", b"true", b"((", b"))", b"()"]
VOCABULARY = Vocabulary.from_bytes([bytes([byte]) for byte in range(256)] + WORDS + [None] * 2, stop_token_ids=[EOS], size=SIZE)
PERSON = r'\{"name": "[a-z]{1,6}", "age": [1-9][0-9]?\}'
NESTED = 'root ::= "(" root ")" | "()"'


def tiny_model(seed=0, size=SIZE):
    """A Llama of two layers with random weights."""
    config = transformers.LlamaConfig(
        vocab_size=size,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(20)  # far from uniform, so that greedy text has some variety
    return model


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture(scope="module")
def compiler():
    return Compiler(VOCABULARY)


def text_of(ids):
    """The text of generated ids up to the stop token, and whether it was stopped."""
    ids = ids.tolist()
    end = ids.index(EOS) if EOS in ids else len(ids)
    assert all(token == PAD for token in ids[end + 1 :])
    return b"".join(VOCABULARY.token_bytes(token) or b"?" for token in ids[:end]).decode("utf-8", "replace"), end < len(ids)


def generate(model, processor, prompts=((1, 2, 3),), **options):
    """The texts that come after some prompts, padded on the left."""
    length = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (length - len(prompt)) + list(prompt) for prompt in prompts])
    output = model.generate(
        ids, attention_mask=(ids != PAD).long(), logits_processor=[processor], max_new_tokens=options.pop("max_new_tokens", 60), **options
    )
    return [text_of(row[length:]) for row in output]


def test_greedy(model, compiler):
    """Greedy decoding gives a text of the language, and stops."""
    [(text, stopped)] = generate(model, GrammarLogitsProcessor(compiler.regex(PERSON)), do_sample=False)
    assert stopped
    assert re.fullmatch(PERSON, text)


def test_a_grammar_for_each_input(model, compiler):
    """Left padding, a grammar for each input, one input free, several samples each; finished rows are padded."""
    grammars = [compiler.regex(PERSON), None, compiler.choice(["yes", "no", "perhaps"])]
    torch.manual_seed(1)
    prompts = [(1, 2, 3, 4), (5,), (6, 7)]
    texts = generate(model, GrammarLogitsProcessor(grammars), prompts, do_sample=True, num_return_sequences=4)
    assert all(stopped and re.fullmatch(PERSON, text) for text, stopped in texts[:4])
    assert all(text in ("yes", "no", "perhaps") and stopped for text, stopped in texts[8:])
    assert not any(re.fullmatch(PERSON, text) for text, _ in texts[4:8])
    assert len(set(texts[:4])) > 1


@pytest.mark.parametrize("options", [{}, {"do_sample": True}])
def test_beams(model, compiler, options):
    """Beams permute and repeat rows; every one that is returned is in the language."""
    torch.manual_seed(2)
    processor = GrammarLogitsProcessor([compiler.regex(PERSON), compiler.ebnf(NESTED)])
    texts = generate(model, processor, [(1, 2), (3, 4)], num_beams=4, num_return_sequences=3, max_new_tokens=40, **options)
    assert all(stopped and re.fullmatch(PERSON, text) for text, stopped in texts[:3])
    assert all(re.fullmatch(r"\(+\)+", text) and text.count("(") == text.count(")") for text, stopped in texts[3:] if stopped)


def test_beams_equal_an_exhaustive_search(model, compiler):
    """With as many beams as there are texts, beam search finds the likeliest text of a choice."""
    options = ["ab", "ax", "b", "true", "trap"]
    processor = GrammarLogitsProcessor(compiler.choice(options))
    [(best, _)] = generate(model, processor, num_beams=12, do_sample=False, length_penalty=0.0)
    grammar, prompt = compiler.choice(options), [1, 2, 3]
    scores: dict[str, float] = {}
    todo = [(prompt, grammar.matcher(), 0.0)]
    while todo:
        ids, matcher, score = todo.pop()
        if matcher.is_terminated():
            text, _ = text_of(torch.tensor(ids[3:]))
            scores[text] = max(score, scores.get(text, score))
            continue
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        for token in matcher.allowed_tokens():
            following = matcher.fork()
            assert following.accept_token(token)
            todo.append(([*ids, token], following, score + logits[token].item()))
    assert best == max(scores, key=scores.__getitem__)


@pytest.mark.parametrize("seed", range(2))
def test_assistance_changes_nothing(model, compiler, seed):
    """An assistant model and prompt lookup give the text that plain greedy decoding gives, token for token."""
    prompt = [seed + 1, *b'{"name": "abab", "age": 12}', *b"(((())))", seed + 5]
    for grammar in (compiler.regex(PERSON), compiler.ebnf(NESTED), compiler.json(whitespace="compact")):
        plain = generate(model, GrammarLogitsProcessor(grammar), [prompt], do_sample=False, max_new_tokens=20)
        for options in ({"assistant_model": tiny_model(seed)}, {"assistant_model": model}, {"prompt_lookup_num_tokens": 4}):
            assisted = generate(model, GrammarLogitsProcessor(grammar), [prompt], do_sample=False, max_new_tokens=20, **options)
            assert assisted == plain, options


def test_assisted_sampling(model, compiler):
    """Speculative sampling stays in the language."""
    torch.manual_seed(3)
    processor = GrammarLogitsProcessor(compiler.regex(PERSON))
    [(text, stopped)] = generate(model, processor, do_sample=True, assistant_model=tiny_model(9))
    assert stopped
    assert re.fullmatch(PERSON, text)


def test_embeddings_as_prompt(model, compiler):
    """With `inputs_embeds` the ids begin empty."""
    embeddings = torch.randn(1, 3, 16)
    processor = GrammarLogitsProcessor(compiler.choice(["yes", "no"]))
    output = model.generate(inputs_embeds=embeddings, attention_mask=torch.ones(1, 3), logits_processor=[processor], max_new_tokens=8)
    assert text_of(output[0]) in [("yes", True), ("no", True)]


def calls(compiler, **options):
    """A processor for the choice of "abc", "abd" and "xyz" and a function that gives the tokens it allows after a prompt of two."""
    processor = GrammarLogitsProcessor(compiler.choice(["abc", "abd", "xyz"]), **options)

    def allowed(*texts):
        ids = torch.tensor([[7, 8, *text] for text in texts])
        scores = processor(ids, torch.zeros(len(texts), SIZE))
        return [row.isfinite().nonzero().flatten().tolist() for row in scores]

    return processor, allowed


def test_rollback_and_fork(compiler):
    """Ids may get shorter, change, and pass from row to row; masks follow."""
    _, allowed = calls(compiler, prompt_length=2)
    start = [97, 120, 263]  # "a", "x", "ab"
    assert allowed(b"", b"") == [start, start]
    assert allowed(b"a", b"x") == [[98], [121]]
    assert allowed(b"ab", b"ab") == [[99, 100], [99, 100]]
    assert allowed(b"abd", b"xyz") == [[EOS], [EOS]]
    assert allowed(b"x", b"a") == [[121], [98]]
    assert allowed([97], [263]) == [[98], [99, 100]]
    assert allowed([], []) == [start, start]
    assert allowed([263, 100, EOS, PAD], [120, 121, 122, EOS]) == [[EOS], [EOS]]
    assert allowed([263, 100, EOS], [120, 121, 122]) == [[EOS], [EOS]]
    assert allowed([263, 100], [120, 121]) == [[EOS], [122]]


def test_off_grammar_rows_are_left_alone(compiler):
    """A draft that left the grammar, or holds ids of no token, is not masked and is no error; when it comes back, it is masked again."""
    _, allowed = calls(compiler, prompt_length=2)
    everything = list(range(SIZE))
    assert allowed(b"a", b"a") == [[98], [98]]
    assert allowed(b"a?", b"ab") == [everything, [99, 100]]
    assert allowed(b"a?b", [97, SIZE + 5, 98]) == [everything, everything]
    assert allowed([97, -1], b"x?") == [everything, everything]
    assert allowed(b"ab", [263, 101]) == [[99, 100], everything]


def test_scores_are_not_changed_in_place(compiler):
    """`generate` may keep the raw scores."""
    processor, _ = calls(compiler)
    scores = torch.zeros(1, SIZE)
    assert processor(torch.tensor([[7, 8]]), scores) is not scores
    assert scores.isfinite().all()


def test_scores_of_another_width_pass_through(compiler):
    """An assistant model with other tokens is left alone, with a warning that says what else it could be."""
    processor, allowed = calls(compiler)
    scores = torch.zeros(1, SIZE + 32)
    with pytest.warns(UserWarning, match=f"size={SIZE + 32}"):
        assert processor(torch.tensor([[1, 2, 3, 4, 5]]), scores) is scores
    assert allowed(b"x") == [[97, 120, 263]]  # the prompt ends with the first call that is the model's own


def test_prompt_length(compiler):
    """A given prompt length makes a text that was begun already go on."""
    _, allowed = calls(compiler, prompt_length=2)
    assert allowed(b"x") == [[121]]
    assert allowed(b"ab") == [[99, 100]]


def test_one_call_of_generate(model, compiler):
    """A processor refuses the ids of another prompt until it is reset; the same prompt again is fine."""
    processor = GrammarLogitsProcessor(compiler.choice(["yes", "no"]))
    assert generate(model, processor) == generate(model, processor)
    for prompts in ([(1, 2, 4)], [(1, 2)], [(1, 2, 3), (1, 2, 3)], [(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)]):
        with pytest.raises(ValueError, match="reset"):
            generate(model, processor, prompts)
    processor.reset()
    assert generate(model, processor, [(1, 2, 4)])[0][1]


def test_wrong_grammars(model, compiler):
    """No grammar, grammars for different vocabularies, a number of grammars that does not divide the rows."""
    other = Compiler(Vocabulary.from_bytes([b"a", None], stop_token_ids=[1])).regex("a")
    for grammars, message in [([], "needs a grammar"), ([None], "needs a grammar"), ([other, compiler.regex("a")], "different sizes")]:
        with pytest.raises(ValueError, match=message):
            GrammarLogitsProcessor(grammars)
    with pytest.raises(ValueError, match="2 grammars cannot be distributed over 3 rows"):
        GrammarLogitsProcessor([compiler.regex("a")] * 2)(torch.zeros(3, 1, dtype=torch.long), torch.zeros(3, SIZE))


def test_a_vocabulary_without_the_bytes():
    """Where no token can go on, the error says so, and what was expected."""
    vocabulary = Vocabulary.from_bytes([b"a", b"b", None], stop_token_ids=[2])
    processor = GrammarLogitsProcessor(Compiler(vocabulary).regex("ac"), prompt_length=0)
    processor(torch.tensor([[]], dtype=torch.long), torch.zeros(1, 3))
    with pytest.raises(GrammarError, match=r"no token of the vocabulary fits in row 0: .* expected is 'c'"):
        processor(torch.tensor([[0]]), torch.zeros(1, 3))


def test_no_warnings_of_our_own(model, compiler):
    """Plain use warns of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generate(model, GrammarLogitsProcessor(compiler.regex("a")))
