"""The states of a block's tokens: `PackedModel` for BERT's relatives, `PaddedModel` for others.

Without padding, all tokens of a block go through the linear layers in one matrix, and attend to
those of their own sequence (`attention`). Architectures that differ from BERT in more than names,
positions and an attention bias go through the library's own forward pass, with padding.

Not here: tokens and pooling.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from sms.encoders.attention import attention_of
from sms.encoders.devices import Machine
from sms.encoders.layers import LayerChoice, Linear, rows_multiple
from sms.ragged import places_of

_WIDTHS_AT_WORK = 16
"""Rows of a state's width for a token inside a layer: state, queries, keys, values, context, the
inner layer before and after GELU and what comes of it."""
_WIDTHS_OF_ANY = 24
"""The same, inside a layer of any architecture."""

_TABLES = tomllib.loads(Path(__file__).with_name("families.toml").read_text("utf-8"))
FAMILIES: Mapping[str, Mapping[str, Any]] = {
    family: _TABLES["bert"] | table for family, table in _TABLES.items()
}
_APPROXIMATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
"""How GELU is computed, by the name of the activation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedShape:
    """What the forward pass needs to know of a configuration."""

    family: str
    dimension: int
    heads: int
    n_layers: int
    epsilon: float
    approximation: str
    """Of GELU, as torch names it."""
    max_tokens: int
    """Of a sequence, special tokens included."""

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> PackedShape | None:
        """Read a `config.json`; None if the model is not one of `FAMILIES` or differs from it."""
        family = str(config.get("model_type"))
        activation = config.get("hidden_act", config.get("activation"))
        if (
            family not in FAMILIES
            or activation not in _APPROXIMATIONS
            or config.get("position_embedding_type", "absolute") != "absolute"
            or config.get("is_decoder")
        ):
            return None
        first_place = FAMILIES[family]["first_place"]
        if first_place and config.get("pad_token_id", first_place - 1) != first_place - 1:
            return None
        return cls(
            family=family,
            dimension=config.get("hidden_size") or config["dim"],
            heads=config.get("num_attention_heads") or config["n_heads"],
            n_layers=config.get("num_hidden_layers") or config["n_layers"],
            epsilon=config.get("layer_norm_eps", 1e-12),
            approximation=_APPROXIMATIONS[activation],
            max_tokens=config["max_position_embeddings"] - first_place,
        )


_Norm = tuple[torch.Tensor, torch.Tensor]  # weight and bias


class _Layer(NamedTuple):
    qkv: Linear
    attended: Linear
    attended_norm: _Norm
    inner: Linear
    outer: Linear
    outer_norm: _Norm


class PackedModel:
    """The forward pass of one model.

    Weights go by the names of the family's base model; a missing one is a `KeyError`, others are
    ignored.
    """

    is_padded = False
    """Whether short sequences are padded to the longest one of a batch."""

    def __init__(
        self,
        shape: PackedShape,
        weights: Mapping[str, torch.Tensor],
        layers: LayerChoice,
        machine: Machine,
    ) -> None:
        self.dimension = shape.dimension * layers.width
        self.machine = machine
        self._shape, self._layers = shape, layers
        # memory for the layers that are kept, and for the one being computed at its widest
        widths = (_WIDTHS_AT_WORK + len(layers.numbers)) * shape.dimension
        self.bytes_per_token = widths * machine.dtype.itemsize + 2 * 4 * self.dimension

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.detach().to(machine.device, machine.dtype)

        def norm(name: str) -> _Norm:
            return moved(weights[f"{name}.weight"]), moved(weights[f"{name}.bias"])

        def linear(*names: str, approximation: str | None = None) -> Linear:
            weight, bias = (
                moved(torch.cat([weights[f"{name}.{part}"] for name in names]))
                for part in ("weight", "bias")
            )
            return Linear(weight, bias, approximation)

        names = FAMILIES[shape.family]
        places = weights["embeddings.position_embeddings.weight"][names["first_place"] :]
        if "embeddings.token_type_embeddings.weight" in weights:
            places = places + weights["embeddings.token_type_embeddings.weight"][0]
        self._words = moved(weights["embeddings.word_embeddings.weight"])
        self._rows_multiple = rows_multiple(self._words)
        self._places = moved(places)
        self._norm = norm("embeddings.LayerNorm")
        self._stack = [
            _Layer(
                qkv=linear(*(f"{at}.{name}" for name in names["query_key_value"])),
                attended=linear(f"{at}.{names['attended']}"),
                attended_norm=norm(f"{at}.{names['attended_norm']}"),
                inner=linear(f"{at}.{names['inner']}", approximation=shape.approximation),
                outer=linear(f"{at}.{names['outer']}"),
                outer_norm=norm(f"{at}.{names['outer_norm']}"),
            )
            for at in (f"{names['layer']}.{number}" for number in range(layers.highest))
        ]
        bias = None
        if shape.family == "mpnet":
            self._bias_table = moved(weights["encoder.relative_attention_bias.weight"])
            self._biases = self._bias_table.new_empty(1, shape.heads, 0, 0)
            bias = self._bias
        self._attention = attention_of(machine, shape.heads, shape.dimension // shape.heads, bias)

    @torch.inference_mode()
    def states(self, ids: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
        """Compute the vectors of all tokens of a block, float32, shape (n_tokens, d).

        `ids` are sequences one after the other, special tokens included; `lengths` descend. The
        result is on the model's device, which may still be computing it.
        """
        return self._layers.joined(x[: ids.size] for x in self._each_layer(ids, lengths))

    def _each_layer(self, ids: np.ndarray, lengths: np.ndarray) -> Iterator[torch.Tensor]:
        """Yield the embeddings, then what comes of each layer; rows past the last token follow."""
        n_tokens, send = ids.size, self.machine.send
        rows = -(-n_tokens // self._rows_multiple) * self._rows_multiple
        x = self._words.new_zeros(rows, self._shape.dimension)
        x[:n_tokens] = self._words[send(ids)] + self._places[send(places_of(lengths))]
        x = self._normed(x, self._norm)
        attend = self._attention(lengths)
        context = torch.zeros_like(x)  # rows past the last token stay zero
        yield x
        for layer in self._stack:
            attend(layer.qkv(x), context)
            x = self._normed(layer.attended(context).add_(x), layer.attended_norm)
            x = self._normed(layer.outer(layer.inner(x)).add_(x), layer.outer_norm)
            yield x

    def _normed(self, x: torch.Tensor, norm: _Norm) -> torch.Tensor:
        return F.layer_norm(x, (self._shape.dimension,), *norm, eps=self._shape.epsilon)

    def _bias(self, width: int) -> torch.Tensor:
        """Return MPNet's bias by relative position, shape (1, heads, width, width)."""
        if self._biases.shape[-1] < width:  # a corner serves shorter sequences
            places = torch.arange(width)
            buckets = _relative_buckets(places[None, :] - places[:, None])
            self._biases = self._bias_table[buckets.to(self.machine.device)].permute(2, 0, 1)[None]
        return self._biases[..., :width, :width].contiguous()


def _relative_buckets(distances: torch.Tensor) -> torch.Tensor:
    """Put distances between tokens into MPNet's buckets, far ones by their logarithm.

    16 of the 32 buckets are for tokens to the right; of either 16, 8 for one distance each, the
    rest for distances up to 128, beyond which all share the last.
    """
    half, exact = 16, 8
    size = distances.abs()
    far = torch.log(size.float() / exact) / math.log(128 / exact) * (half - exact)
    far = (exact + far.clamp(min=0).long()).clamp(max=half - 1)
    return torch.where(size < exact, size, far) + (distances > 0) * half


class PaddedModel:
    """The library's own forward pass of any encoder, over sequences of about one length.

    `padding` is the token that fills short sequences up.
    """

    is_padded = True
    """Whether short sequences are padded to the longest one of a batch."""

    def __init__(self, model: Any, padding: int, layers: LayerChoice, machine: Machine) -> None:
        self.dimension = model.config.hidden_size * layers.width
        self.machine = machine
        self._model = model.to(machine.device, machine.dtype).eval()
        self._padding, self._layers = padding, layers
        # memory for all layers, which the library keeps, and for the one being computed
        widths = (_WIDTHS_OF_ANY + model.config.num_hidden_layers) * model.config.hidden_size
        self.bytes_per_token = widths * machine.dtype.itemsize + 2 * 4 * self.dimension

    @torch.inference_mode()
    def states(self, ids: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
        """Compute the vectors of all tokens of a block, as `PackedModel.states` does."""
        is_token = np.arange(lengths[0]) < lengths[:, None]
        padded = np.full(is_token.shape, self._padding, dtype=np.int64)
        padded[is_token] = ids
        mask = self.machine.send(is_token)
        output = self._model(
            input_ids=self.machine.send(padded),
            attention_mask=mask.long(),
            output_hidden_states=True,
            return_dict=True,
        )
        # some models normalise their last layer only after adding it to `hidden_states`
        layers = (*output.hidden_states[:-1], output.last_hidden_state)
        return self._layers.joined(states[mask] for states in layers)
