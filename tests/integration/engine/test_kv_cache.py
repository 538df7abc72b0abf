"""Rows of keys and values: they change places, grow, and hold numbers wherever they are read."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from stackmask.integration.engine.kv_cache import ModelCaches, Slots, _Layer  # noqa: E402


@pytest.mark.parametrize("make", [Slots, ModelCaches])
def test_rows_are_exchanged(model, make):
    """After an exchange each row goes on as the other would have."""
    cache = make(model[0], 4)
    prompts = ([5, 6, 7], [9] * 80, [11, 12])
    with torch.inference_mode():
        for prompt in prompts:
            cache.prefill(cache.add(), prompt)
        cache.swap(0, 1)
        assert cache.lengths == [80, 3, 2]
        swapped = cache.forward([[20], [21], [22]])[:, 0]
        other = make(model[0], 4)
        for prompt in (prompts[1], prompts[0], prompts[2]):
            other.prefill(other.add(), prompt)
        assert torch.allclose(swapped, other.forward([[20], [21], [22]])[:, 0], atol=1e-4)
        empty = make(model[0], 4)
        empty.add(), empty.add(), empty.swap(0, 1)
        assert empty.lengths == [0, 0]


def test_what_is_read_is_a_number(model, monkeypatch):
    """Memory that was never written to may hold anything; a row beside others, padded, grown or moved has the logits that it has alone."""
    new_empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, *size: new_empty(self, *size).fill_(torch.nan))
    cache, alone = Slots(model[0], 8), Slots(model[0], 8)
    prompts = ([5] * 3, [6] * 150, [7] * 40)
    with torch.inference_mode():
        for prompt in prompts:
            cache.prefill(cache.add(), prompt)
        cache.add()
        cache.remove(0)  # the row that was never in a pass takes its place
        cache.prefill(0, prompts[0])
        cache.prefill(cache.add(), [8] * 300)
        logits = cache.forward([[20], [21, 22, 23], [24], [25]])
        for row, (prompt, tokens) in enumerate(zip((*prompts, [8] * 300), ([20], [21, 22, 23], [24], [25]), strict=True)):
            alone.clear()
            alone.prefill(alone.add(), prompt)
            assert torch.allclose(logits[row, : len(tokens)], alone.forward([tokens])[0], atol=1e-4)


def test_a_row_that_grows_is_copied_a_few_times(model, monkeypatch):
    """A prompt of 1,000 tokens in 125 pieces makes room seven times, not with every piece that reaches the end of it."""
    grown = []
    monkeypatch.setattr(_Layer, "_grown", lambda self, *given, grow=_Layer._grown: (grown.append(self), grow(self, *given))[1])
    cache = Slots(model[0], 2)
    cache.add()
    with torch.inference_mode():
        for _ in range(125):
            cache.prefill(0, [5] * 8)
    assert cache.lengths == [1000] and len(grown) / len(cache._layers) / 2 <= 7
