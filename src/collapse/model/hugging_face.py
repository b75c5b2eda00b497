"""The Pre-Norm decoder as Hugging Face's Llama: the model's correctness oracle."""

from typing import Any

import torch
from torch import Tensor

from collapse.errors import CollapseError
from collapse.model.decoder import Decoder


def llama_config(decoder: Decoder, **overrides: Any) -> Any:
    """A `LlamaConfig` of a decoder's shape."""
    from transformers import LlamaConfig

    config = decoder.config
    return LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.width,
        intermediate_size=config.ffn_width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=config.sequence_length,
        rms_norm_eps=config.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_base},
        tie_word_embeddings=config.tie_embeddings,
        attention_bias=False,
        mlp_bias=False,
        use_cache=False,
        **overrides,
    )


def _halves(weight: Tensor, heads: int) -> Tensor:
    """The rows of W_Q or W_K in the order of Llama's code, which rotates row k of a head together with row k + half."""
    return weight.view(heads, -1, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


@torch.no_grad()
def to_hugging_face(decoder: Decoder) -> Any:
    """A `transformers.LlamaForCausalLM` with a Pre-Norm decoder's weights: the same logits, within rounding.

    Raises:
        CollapseError: for a placement that Llama does not have.
    """
    from transformers import LlamaForCausalLM

    if decoder.config.placement != "pre":
        raise CollapseError(
            f"only a Pre-Norm decoder is a Llama; this one has placement {decoder.config.placement!r}: "
            "build it with placement='pre' to export it"
        )
    llama = LlamaForCausalLM(llama_config(decoder))
    weights = {"model.embed_tokens.weight": decoder.embedding.weight, "model.norm.weight": decoder.norms[-1]}
    for index, layer in enumerate(decoder.stack):
        prefix = f"model.layers.{index}"
        queries, keys, values = layer.attention.qkv.weight.chunk(3)
        gate, up = layer.ffn.gate_up.weight.chunk(2)
        weights |= {
            f"{prefix}.self_attn.q_proj.weight": _halves(queries, decoder.config.heads),
            f"{prefix}.self_attn.k_proj.weight": _halves(keys, decoder.config.heads),
            f"{prefix}.self_attn.v_proj.weight": values,
            f"{prefix}.self_attn.o_proj.weight": layer.attention.output.weight,
            f"{prefix}.mlp.gate_proj.weight": gate,
            f"{prefix}.mlp.up_proj.weight": up,
            f"{prefix}.mlp.down_proj.weight": layer.ffn.down.weight,
            f"{prefix}.input_layernorm.weight": decoder.norms[2 * index],
            f"{prefix}.post_attention_layernorm.weight": decoder.norms[2 * index + 1],
        }
    weights["lm_head.weight"] = decoder.head.weight
    llama.load_state_dict(weights)
    return llama.eval()
