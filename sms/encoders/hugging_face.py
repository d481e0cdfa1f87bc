"""Models of the transformers library: from a folder or a hub id to an encoder."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch

from sms.encoders import EncoderRuntime
from sms.encoders.bert import BertEncoder, Pooling
from sms.encoders.devices import Machine
from sms.encoders.layers import LayerChoice, speed_up
from sms.encoders.packed_model import PackedModel, PackedShape, PaddedModel
from sms.encoders.pieces import PieceCutter
from sms.encoders.pretrained import ModelFolder, most_tokens, tried

logger = logging.getLogger(__name__)

PROBE = "A probe, of 12 words or so."
PROBE_ATOL = 1e-4
"""How far the packed pass may be from the library's before it is not used. Equal architectures
differ by 1e-6 times the size of a state; another one differs by whole units."""


def load_hf(
    path: str, *, runtime: EncoderRuntime, layers: str = "last", pooling: str = "mean"
) -> BertEncoder:
    """Load a BERT-like model from a folder or by its id on the hub: words and sentences.

    Raises `ValueError` for a model that is missing, damaged or of another kind, and for options
    that do not fit it.
    """
    model_folder = ModelFolder.open(path, after="hf:", runtime=runtime)
    model = model_folder.load_encoder()
    choice = LayerChoice.parse(layers, model.config.num_hidden_layers)
    return BertEncoder(
        token_model(model, model_folder.tokenizer, choice, model_folder.machine),
        PieceCutter(model_folder.tokenizer.backend_tokenizer),
        name=f"{model_folder.name}|layer:{layers}",
        content_hash=model_folder.content_hash,
        max_tokens=most_tokens(model, model_folder.tokenizer),
        pooling=Pooling(mode=pooling),
    )


def token_model(
    model: Any, tokenizer: Any, layers: LayerChoice, machine: Machine
) -> PackedModel | PaddedModel:
    """Choose the fastest exact forward pass: packed where it gives what the library gives."""
    padding = tokenizer.pad_token_id or 0
    plain = Machine(torch.device("cpu"), "fp32")

    def probed() -> tuple[np.ndarray, torch.Tensor]:
        ids = np.array(tokenizer(PROBE)["input_ids"], dtype=np.int64)
        return ids, PaddedModel(model, padding, layers, plain).states(ids, np.array([ids.size]))

    ids, expected = tried(
        probed, f"a {type(model).__name__} must give vectors from its tokeniser's pieces alone"
    )
    shape = PackedShape.read(model.config.to_dict())
    if shape is not None:
        packed = PackedModel(shape, model.state_dict(), layers, plain)
        found = packed.states(ids, np.array([ids.size]))
        if torch.allclose(found, expected, rtol=PROBE_ATOL, atol=PROBE_ATOL):
            if machine == plain:
                return packed
            return PackedModel(shape, model.state_dict(), layers, machine)
        logger.warning("this %s model is unusual; encoding with padding, more slowly", shape.family)
    slow = PaddedModel(model, padding, layers, machine)
    speed_up(model)
    return slow
