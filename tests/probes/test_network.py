import numpy as np
import pytest
import torch

from collapse.errors import CollapseError
from collapse.model.decoder import Decoder
from collapse.probes.network import Network, attention_branch, attention_weights, prefix_mean, read_window
from collapse.probes.stack import StackSpec
from collapse.theory.attention import prefix_average


@pytest.fixture
def config(stack):
    return StackSpec.model_validate(stack).model


def test_layers_equal_the_decoder_of_the_same_seed(config):
    decoder, network = Decoder(config, seed=3), Network(config, seed=3)
    assert torch.equal(network.embedding, decoder.embedding.weight)
    layers = [layer[1.0] for layer in network.layers([1.0], "all")]
    assert len(layers) == config.layers
    for drawn, expected in zip(layers, decoder.stack, strict=True):
        for name, weight in drawn.state_dict().items():
            assert torch.equal(weight, expected.state_dict()[name]), name


@pytest.mark.parametrize(("target", "same"), [("all", 0), ("value_output", 4)])
def test_variance_scales_multiply_the_same_draws(config, target, same):
    (first, *_) = Network(config, seed=0).layers([1.0, 4.0], target)
    plain, scaled = ({k: v.clone() for k, v in first[s].state_dict().items()} for s in (1.0, 4.0))
    parts = {"queries": 0, "keys": 1, "values": 2}
    pairs = {name: [w["attention.qkv.weight"].chunk(3)[i] for w in (plain, scaled)] for name, i in parts.items()}
    pairs |= {name: [w[name] for w in (plain, scaled)] for name in plain if name != "attention.qkv.weight"}
    unchanged = [name for name, (a, b) in pairs.items() if torch.equal(a, b)]
    assert len(unchanged) == same
    for name, (a, b) in pairs.items():
        if name not in unchanged:
            torch.testing.assert_close(2 * a, b)


def test_unit_inputs_have_rows_of_rms_one(config):
    network = Network(config, seed=0)
    window = torch.arange(24)
    for name in ("tokens", "gaussian"):
        rows = network.input(name, window, "unit")
        torch.testing.assert_close(rows.square().mean(-1), torch.ones(24))
        as_trained = network.input(name, window, "as_trained")
        torch.testing.assert_close(rows, as_trained / as_trained.square().mean(-1, keepdim=True).sqrt())
    assert torch.equal(network.input("tokens", window, "as_trained"), network.embedding[window])


def test_gaussian_inputs_differ_by_seed_and_do_not_change_the_network(config):
    first, again, other = (Network(config, seed) for seed in (0, 0, 1))
    window = torch.arange(24)
    rows = first.input("gaussian", window, "unit")
    assert torch.equal(rows, again.input("gaussian", window, "unit"))
    assert not torch.equal(rows, other.input("gaussian", window, "unit"))
    assert not torch.equal(first.input("gaussian", window, "as_trained"), first.embedding[:24])
    untouched = Network(config, 0).draw_layer().ffn.down.weight
    assert torch.equal(first.draw_layer().ffn.down.weight, untouched)


def test_prefix_mean_is_the_prefix_average():
    values = torch.randn(2, 3, 17, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(prefix_mean(values), torch.from_numpy(prefix_average(17)) @ values)


def test_explicit_weights_reproduce_the_branch(config):
    network = Network(config, seed=0, dtype=torch.float64)
    attention = network.draw_layer().attention
    x = torch.randn(24, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = attention_weights(attention, x, network.rotary)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 24, dtype=torch.float64))
    assert not weights.triu(1).any()
    values = attention.project(x[None], network.rotary)[2]
    for a in (0.0, 0.3, 1.0):
        expected = attention.merge((weights - a * torch.from_numpy(prefix_average(24))) @ values)
        torch.testing.assert_close(
            attention_branch(attention, x[None], network.rotary, torch.tensor([a], dtype=torch.float64)),
            expected,
            rtol=1e-9,
            atol=1e-12,
        )


def test_windows_beyond_the_corpus_and_unknown_ids_are_rejected(config):
    tokens = np.arange(60, dtype=np.uint16)
    assert read_window(tokens, config, 1).tolist() == list(range(24, 48))
    with pytest.raises(CollapseError, match=r"60 training tokens, and window 2 of 24 ends at 72: lower probe\.window"):
        read_window(tokens, config, 2)
    with pytest.raises(CollapseError, match=r"token id 300 is outside the model's vocabulary"):
        read_window(np.full(24, 300, np.uint16), config, 0)
