"""The decoder against Hugging Face's Llama, and against equation 1 written out naively."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from collapse.config.model import ModelConfig
from collapse.errors import CollapseError
from collapse.model import Decoder, to_hugging_face
from collapse.model.rotary import rotary_table, rotate

SHAPE = {"layers": 3, "width": 32, "heads": 4, "ffn_width": 48, "sequence_length": 16, "vocab_size": 50}


def decoder(placement: str, tie: bool = False, **changes: object) -> Decoder:
    """A small decoder whose gains are not all 1."""
    config = ModelConfig.model_validate(SHAPE | {"placement": placement, "tie_embeddings": tie} | changes)
    model = Decoder(config, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for gain in model.norms:
            gain.normal_(1.0, 0.1, generator=generator)
    return model


def token_ids(batch: int = 2) -> Tensor:
    return torch.randint(0, SHAPE["vocab_size"], (batch, SHAPE["sequence_length"]), generator=torch.Generator())


def naive_logits(model: Decoder, ids: Tensor) -> Tensor:
    """Equation 1 and its Pre-Norm twin, one operation after the other, with explicit softmax and masks."""
    config = model.config
    head_width = config.width // config.heads
    n = ids.shape[1]

    def rms(x: Tensor, gain: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + config.norm_eps).sqrt() * gain

    def attention(x: Tensor, layer: object) -> Tensor:
        w_q, w_k, w_v = layer.attention.qkv.weight.chunk(3)
        heads = []
        for h in range(config.heads):
            rows = slice(h * head_width, (h + 1) * head_width)
            q, k, v = x @ w_q[rows].T, x @ w_k[rows].T, x @ w_v[rows].T
            turned = []
            for z in (q, k):
                out = torch.empty_like(z)
                for m in range(n):
                    for i in range(head_width // 2):
                        angle = torch.tensor(m * config.rope_base ** (-2 * i / head_width), dtype=z.dtype)
                        a, b = z[:, m, 2 * i], z[:, m, 2 * i + 1]
                        out[:, m, 2 * i] = a * angle.cos() - b * angle.sin()
                        out[:, m, 2 * i + 1] = a * angle.sin() + b * angle.cos()
                turned.append(out)
            scores = turned[0] @ turned[1].transpose(1, 2) / head_width**0.5
            scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
            heads.append(scores.softmax(-1) @ v)
        return torch.cat(heads, -1) @ layer.attention.output.weight.T

    def ffn(x: Tensor, layer: object) -> Tensor:
        w_1, w_3 = layer.ffn.gate_up.weight.chunk(2)
        return (functional.silu(x @ w_1.T) * (x @ w_3.T)) @ layer.ffn.down.weight.T

    gains = iter(model.norms)
    y = model.embedding.weight[ids]
    for layer in model.stack:
        for branch in (attention, ffn):
            normed = rms(y, next(gains))
            y = (normed if config.placement == "post" else y) + branch(normed, layer)
    return rms(y, next(gains)) @ model.head.weight.T


@pytest.mark.parametrize("tie", [True, False])
def test_pre_norm_is_hugging_faces_llama(tie: bool) -> None:
    model, ids = decoder("pre", tie), token_ids()
    llama = to_hugging_face(model)
    ours, theirs = model(ids), llama(ids).logits
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    torch.testing.assert_close(model.embedding.weight.grad, llama.model.embed_tokens.weight.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        model.norms[2].grad, llama.model.layers[1].input_layernorm.weight.grad, rtol=1e-4, atol=1e-4
    )


def test_paper_head_width_also_agrees_with_llama() -> None:
    model = decoder("pre", width=256, heads=2, ffn_width=128, layers=1)
    ids = token_ids()
    torch.testing.assert_close(model(ids), to_hugging_face(model)(ids).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_equation_1_written_out(placement: str) -> None:
    model, ids = decoder(placement).double(), token_ids()
    ours, naive = model(ids), naive_logits(model, ids)
    torch.testing.assert_close(ours, naive, rtol=1e-6, atol=1e-6)  # the rotary table is float32
    weights = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator())
    parameters = list(model.parameters())
    got = torch.autograd.grad((ours * weights).sum(), parameters)
    wanted = torch.autograd.grad((naive * weights).sum(), parameters)
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("move", [lambda m: m.double(), lambda m: m.to(torch.float64)], ids=["double", "to"])
def test_logits_in_double_precision(placement: str, move: Callable[[Decoder], Decoder]) -> None:
    ids, single = token_ids(), decoder(placement)
    moved = move(decoder(placement))
    torch.testing.assert_close(moved(ids), single(ids).double(), rtol=1e-5, atol=1e-5)
    if placement == "pre":
        torch.testing.assert_close(moved(ids), to_hugging_face(moved).double()(ids).logits, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("move", [lambda m: m.bfloat16(), lambda m: m.to(torch.bfloat16)], ids=["bfloat16", "to"])
def test_logits_in_half_precision(placement: str, move: Callable[[Decoder], Decoder]) -> None:
    """As a float32 decoder with the same weights, within the rounding of activations to eight bits."""
    ids, moved = token_ids(), move(decoder(placement))
    single = decoder(placement)
    single.load_state_dict(moved.state_dict())
    wanted, got = single(ids).detach(), moved(ids)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), wanted, rtol=0, atol=2**-6 * float(wanted.abs().max()))
    torch.testing.assert_close(moved.float()(ids), wanted, rtol=0, atol=0)  # nothing is lost on the way


def test_post_norm_is_no_llama() -> None:
    with pytest.raises(CollapseError, match="placement 'post'"):
        to_hugging_face(decoder("post"))


def test_the_future_is_not_seen() -> None:
    model, ids = decoder("post"), token_ids()
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % SHAPE["vocab_size"]
    torch.testing.assert_close(model(ids)[:, :-1], model(changed)[:, :-1], rtol=0, atol=0)


def test_a_sequence_longer_than_configured_is_refused() -> None:
    with pytest.raises(ValueError, match="17 tokens"):
        decoder("post")(torch.zeros(1, 17, dtype=torch.long))


def test_standard_initialization() -> None:
    config = ModelConfig.model_validate(
        SHAPE | {"width": 128, "ffn_width": 384, "tie_embeddings": False, "embedding_std": 0.5, "vocab_size": 3000}
    )
    model = Decoder(config, seed=0)
    layer = model.stack[0]
    wanted = [
        (layer.attention.qkv.weight, 1 / (3 * 128)),
        (layer.attention.output.weight, 1 / (3 * 128)),
        (layer.ffn.gate_up.weight, 1 / (3 * 128)),
        (layer.ffn.down.weight, 1 / (3 * 384)),
        (model.embedding.weight, 0.25),
        (model.head.weight, 0.02**2),
    ]
    for parameter, variance in wanted:
        weight = parameter.detach()
        assert float(weight.var()) == pytest.approx(variance, rel=0.05)
        assert abs(float(weight.mean())) < 5 * (variance / weight.numel()) ** 0.5
    assert all(bool((gain == 1).all()) for gain in model.norms)


def test_the_seed_decides_the_initialization() -> None:
    config = ModelConfig.model_validate(SHAPE)
    torch.manual_seed(1)
    first = Decoder(config, seed=5)
    torch.manual_seed(2)
    second, other = Decoder(config, seed=5), Decoder(config, seed=6)
    assert all(bool((a == b).all()) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.embedding.weight, other.embedding.weight)


def test_tied_parameters_are_counted_once() -> None:
    tied, untied = decoder("post", tie=True), decoder("post", tie=False)
    assert untied.parameter_count - tied.parameter_count == SHAPE["vocab_size"] * SHAPE["width"]


def test_rotation_depends_on_the_distance_only() -> None:
    table = rotary_table(12, 8, 10_000.0)
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(8, generator=generator).expand(1, 12, 1, 1, 8) for _ in range(2))
    scores = rotate(q, table).flatten(2)[0] @ rotate(k, table).flatten(2)[0].T
    for offset in range(-11, 12):
        diagonal = scores.diagonal(offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-4, atol=1e-4)
