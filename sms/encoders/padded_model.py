"""Any encoder of the transformers library, by batches with padding and an attention mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sms.encoders.devices import Machine
from sms.encoders.layers import LayerChoice

_WIDTHS_AT_WORK = 24
"""Rows of a state's width for a token inside a layer of any architecture."""


class PaddedModel:
    """The library's own forward pass, over sequences of about one length.

    `padding` is the token that fills short sequences up.
    """

    is_padded = True
    """Whether short sequences are padded to the longest one of a batch."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401  (transformers has no types)
        padding: int,
        layers: LayerChoice,
        machine: Machine,
    ) -> None:
        self.dimension = model.config.hidden_size * layers.width
        self.machine = machine
        self._model = model.to(machine.device, machine.dtype).eval()
        self._padding, self._layers = padding, layers
        # all layers, which the library keeps, and one at work
        widths = (_WIDTHS_AT_WORK + model.config.num_hidden_layers) * model.config.hidden_size
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
        # some models still normalise what they hand out as the last layer
        layers = (*output.hidden_states[:-1], output.last_hidden_state)
        return self._layers.joined(states[mask] for states in layers)
