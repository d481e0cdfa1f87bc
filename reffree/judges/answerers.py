"""Models that answer: loaded from their folders, and asked with batches of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from reffree.judges.inputs import Input
from reffree.judges.settings import FOUNDATION, Answer, JudgeOptions
from reffree.language_models import CLASSIFIER, GENERATOR, load_pretrained, padded
from sms.encoders import EncoderRuntime
from sms.encoders.devices import Machine
from sms.encoders.pretrained import (
    ModelFolder,
    Pretrained,
    find_folder,
    in_use,
    n_places,
    name_of,
    one_line,
)
from sms.file_hashes import hash_of_files

AFTER = "pair@"
_SAME = (
    {"entailment", "entail", "supports", "supported"},
    {"contradiction", "contradict", "refutes", "refuted"},
)
"""What NLI models call the same class, in small letters."""
_ALIGNSCORE_HEAD = "tri_layer"
_ALIGNSCORE_CLASSES = 3  # aligned, contradicting, neutral

Logits = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""From ids, mask and types, shape (n, length), to the logits of all answers, (n, n_answers)."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Answerer:
    """A model on its device, asked for the logits of its answers."""

    pretrained: Pretrained
    logits: Logits
    pads_left: bool = False  # whether the answer is at the end of the input

    @torch.inference_mode()
    def answers(
        self, inputs: Sequence[Input], read: Callable[[torch.Tensor], torch.Tensor]
    ) -> np.ndarray:
        """Return what `read` makes of the logits of some inputs, float32, shape (n, n_values)."""
        machine, is_left = self.pretrained.machine, self.pads_left
        padding = self.pretrained.tokenizer.pad_token_id or 0
        ids, mask = padded(
            [model_input.ids for model_input in inputs], machine, fill=padding, is_left=is_left
        )
        types, _ = padded([model_input.types for model_input in inputs], machine, is_left=is_left)
        return read(self.logits(ids, mask, types)).float().cpu().numpy()


def load_answerer(path: str, kind: str, runtime: EncoderRuntime) -> Answerer:
    """Load a model of one of `settings.MODELS`; metrics of one run share it."""
    return in_use((Answerer, kind), path, runtime, partial(_LOADERS[kind], path, runtime))


def _load_classifier(path: str, runtime: EncoderRuntime) -> Answerer:
    pretrained = load_pretrained(path, CLASSIFIER, runtime=runtime, after=AFTER)
    model, has_types = pretrained.model, "token_type_ids" in pretrained.tokenizer.model_input_names

    def logits(ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        named = {"token_type_ids": types} if has_types else {}
        return model(input_ids=ids, attention_mask=mask, **named).logits

    return Answerer(pretrained, logits)


def _load_generator(path: str, runtime: EncoderRuntime) -> Answerer:
    pretrained = load_pretrained(path, GENERATOR, runtime=runtime, after=AFTER)
    model = pretrained.model

    def first_step(ids: torch.Tensor, mask: torch.Tensor, _types: torch.Tensor) -> torch.Tensor:
        start = torch.full_like(ids[:, :1], model.config.decoder_start_token_id)
        output = model(input_ids=ids, attention_mask=mask, decoder_input_ids=start)
        return output.logits[:, 0]

    def next_step(ids: torch.Tensor, mask: torch.Tensor, _types: torch.Tensor) -> torch.Tensor:
        given = {"input_ids": ids, "attention_mask": mask, "use_cache": False, "logits_to_keep": 1}
        places = (mask.cumsum(dim=1) - 1).clamp(min=0)
        return model(**given, position_ids=places).logits[:, -1]

    step = first_step if pretrained.has_encoder else next_step
    return Answerer(pretrained, step, pads_left=not pretrained.has_encoder)


def _load_hhem(path: str, runtime: EncoderRuntime) -> Answerer:
    """Load HHEM-2.1-Open, whose classifier reads the first token, without its own code."""
    from transformers import T5ForTokenClassification

    whole = ModelFolder.open(path, after=AFTER, runtime=runtime)
    base = replace(whole, folder=whole.folder / FOUNDATION)
    if not base.folder.is_dir():
        raise ValueError(f"`{base.folder}` is missing")
    model = T5ForTokenClassification(base.config)
    state: dict[str, torch.Tensor] = {}
    for file in sorted(whole.folder.glob("*.safetensors")):
        state |= load_file(file)
    state = {name.removeprefix("t5."): tensor for name, tensor in state.items()}
    words = "transformer.shared.weight"
    if words in state:
        state["transformer.encoder.embed_tokens.weight"] = state[words]
    _fill(model, state, whole.folder)
    pretrained = base.ready(model)

    def logits(ids: torch.Tensor, mask: torch.Tensor, _types: torch.Tensor) -> torch.Tensor:
        return pretrained.model(input_ids=ids, attention_mask=mask).logits[:, 0]

    return Answerer(pretrained, logits)


def _load_alignscore(path: str, runtime: EncoderRuntime) -> Answerer:
    """Load a RoBERTa and one of the heads of AlignScore's checkpoint."""
    from transformers import AutoModel

    folder = find_folder(path, after=AFTER)
    files = sorted(folder.glob("AlignScore*.ckpt"))
    if len(files) != 1:
        raise ValueError(f"`{folder}` must hold one AlignScore*.ckpt, got {len(files)}")
    try:
        state = torch.load(files[0], map_location="cpu", weights_only=True)["state_dict"]
    except Exception as error:  # whatever a damaged pickle does
        raise ValueError(
            f"`{files[0]}` must be AlignScore's checkpoint, with nothing but numbers, got "
            f"{type(error).__name__}: {one_line(error)}"
        ) from error
    described = [*sorted(folder.glob("*.json")), *sorted(folder.glob("*.txt"))]
    content = hash_of_files([files[0], *described])
    whole = ModelFolder(folder, name_of(path), content, Machine.choose(runtime))
    config = whole.config
    config.num_labels = _ALIGNSCORE_CLASSES
    base = AutoModel.from_config(config)
    head = torch.nn.Linear(config.hidden_size, _ALIGNSCORE_CLASSES)
    model: Any = torch.nn.ModuleDict({"base_model": base, _ALIGNSCORE_HEAD: head})
    model.config = config
    _fill(model, state, files[0])
    pretrained = whole.ready(model)
    has_types = "token_type_ids" in pretrained.tokenizer.model_input_names

    def logits(ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        named = {"token_type_ids": types} if has_types else {}
        return head(base(input_ids=ids, attention_mask=mask, **named).pooler_output)

    return Answerer(pretrained, logits)


_LOADERS: Mapping[str, Callable[[str, EncoderRuntime], Answerer]] = {
    "classifier": _load_classifier,
    "generator": _load_generator,
    "hhem": _load_hhem,
    "alignscore": _load_alignscore,
}


def _fill(model: torch.nn.Module, state: Mapping[str, torch.Tensor], where: Path) -> None:
    """Give a model its weights; those of other parts are left."""
    try:
        missing = model.load_state_dict(dict(state), strict=False).missing_keys
    except RuntimeError as error:
        raise ValueError(f"`{where}` must fit its configuration, got {one_line(error)}") from error
    if missing:
        raise ValueError(
            f"`{where}` must hold all weights, but {len(missing)} are missing, such as {missing[0]}"
        )


def most_read(pretrained: Pretrained, asked: int | None) -> int:
    """Return how many tokens a model is to read: as asked, if it has places for them."""
    if asked is None:
        return pretrained.max_tokens
    # DeBERTa 2 and 3 may encode distances only: then the length of an input has no limit
    has_places = getattr(pretrained.model.config, "position_biased_input", True)
    return min(asked, n_places(pretrained.model)) if has_places else asked


def reading(
    pretrained: Pretrained, settings: JudgeOptions
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what makes values of logits: of the positive answer and, if asked for, the other."""
    find = _first_token if settings.model == "generator" else _class_number
    positive, negative = (
        [find(pretrained, name) for name in (answer if isinstance(answer, tuple) else (answer,))]
        if answer is not None
        else []
        for answer in (settings.positive, settings.negative)
    )

    def read(logits: torch.Tensor) -> torch.Tensor:
        logits = logits.double()
        if settings.value == "logit":
            return logits[:, positive[:1]]
        if logits.shape[1] == 1:  # one logit, that of a yes
            return torch.sigmoid(logits)
        log_p = torch.log_softmax(logits, dim=1)
        each = [log_p[:, numbers].logsumexp(dim=1) for numbers in (positive, negative) if numbers]
        if settings.value == "share":
            return torch.sigmoid(each[0] - each[1])[:, None]
        wanted = each if settings.value == "difference" else each[:1]
        return torch.stack(wanted, dim=1).exp()

    return read


def _first_token(pretrained: Pretrained, answer: Answer) -> int:
    ids = pretrained.tokenizer.backend_tokenizer.encode(str(answer), add_special_tokens=False).ids
    if not ids:
        raise ValueError(f"`positive` and `negative` of a pair must have tokens, got {answer!r}")
    return int(ids[0])


def _class_number(pretrained: Pretrained, answer: Answer) -> int:
    labels = pretrained.model.config.id2label
    name = str(answer).lower()
    same = next((names for names in _SAME if name in names), {name})
    for number, label in labels.items():
        if answer == int(number) or str(label).lower() in same:
            return int(number)
    if len(labels) == 1:
        return 0
    named = ", ".join(f"{number} {label}" for number, label in labels.items())
    raise ValueError(
        f"{pretrained.folder.name} must have a class {answer!r}, got {named}; give `positive` and, "
        "where there is one, `negative` as the class's name or number"
    )
