"""Log-probabilities of the tokens of texts after a prefix, which is computed once for all of them.

A causal model reads a prefix once and keeps its keys and values; of an encoder and decoder the
prefix is what the encoder reads, and the decoder's keys and values of it are kept. They are then
copied for the texts that follow. Numbers of tokens in, numbers out: text is not handled here.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from reffree.language_models import batches, padded
from sms.encoders import SCORE_TOLERANCE
from sms.encoders.pretrained import Pretrained

T = TypeVar("T")
_PROBE = (np.arange(1, 12), (np.array([5, 3, 8, 2, 9, 4]), np.array([7, 6])))


class PrefixScorer:
    """Says how likely texts are after prefixes."""

    def __init__(self, pretrained: Pretrained) -> None:
        self._model, self._machine = pretrained.model, pretrained.machine
        self._name = pretrained.folder.name
        self._batches, self._parts = batches(pretrained.machine), batches(pretrained.machine)
        self._has_encoder = pretrained.has_encoder
        self._read = self._encode if self._has_encoder else self._read_prefixes
        accepted = inspect.signature(self._model.forward).parameters
        self._takes_positions = "position_ids" in accepted
        self._takes_kept = "logits_to_keep" in accepted
        self._start: Any = getattr(self._model.config, "decoder_start_token_id", None)
        if self._has_encoder and self._start is None:
            raise ValueError(
                f"`{self._name}` must say in its config.json what its decoder begins with, "
                "`decoder_start_token_id`, got none"
            )
        self._check()

    def log_probabilities(
        self, prefixes: Sequence[np.ndarray], texts: Sequence[np.ndarray], owner: np.ndarray
    ) -> list[np.ndarray]:
        """Return the log-probability of every token of every text, float64.

        `prefixes` are the tokens that come before, for a causal model at least one; `texts` those
        to score, at least one; all int64. `owner` is the prefix of every text, (n_texts,).
        """

        def score(read: _Read, rows: np.ndarray, numbers: Sequence[int]) -> Iterator[np.ndarray]:
            return self._after(read, rows, [texts[number] for number in numbers])

        return self._each(prefixes, texts, owner, score)

    def next_tokens(
        self,
        prefixes: Sequence[np.ndarray],
        texts: Sequence[np.ndarray],
        owner: np.ndarray,
        take: Callable[[torch.Tensor, Sequence[int]], Iterable[T]],
    ) -> list[T]:
        """Return what `take` makes of the log-probabilities of the token that follows every text.

        It gets those of some texts, float32 of shape (n, n_words), and the numbers of these texts.
        """

        def score(read: _Read, rows: np.ndarray, numbers: Sequence[int]) -> Iterable[T]:
            ids, mask = padded([texts[number] for number in numbers], self._machine)
            last = mask.sum(1) - 1
            places = torch.unique(last)  # of the other tokens no words are predicted
            logits = self._predict(read, self._machine.send(rows), ids, mask, places)
            if logits.shape[1] == places.numel():
                last = torch.searchsorted(places, last)
            return take(_log_softmax(logits[torch.arange(len(numbers)), last]), numbers)

        return self._each(prefixes, texts, owner, score)

    def _each(
        self,
        prefixes: Sequence[np.ndarray],
        texts: Sequence[np.ndarray],
        owner: np.ndarray,
        score: Callable[[_Read, np.ndarray, Sequence[int]], Iterable[T]],
    ) -> list[T]:
        """Return what `score` makes of every text after its prefix, in batches."""
        made: dict[int, T] = {}
        n_tokens = np.array([text.size for text in texts], dtype=np.int64)
        by_prefix = np.argsort(owner, kind="stable")
        starts = np.searchsorted(owner[by_prefix], np.arange(len(prefixes) + 1))

        @torch.inference_mode()
        def compute(chosen: np.ndarray) -> None:
            read = self._read([prefixes[number] for number in chosen.tolist()])
            listed = [by_prefix[starts[k] : starts[k + 1]] for k in chosen.tolist()]
            text_numbers = np.concatenate(listed)
            row = np.repeat(np.arange(chosen.size), [*map(len, listed)])

            def score_part(part: np.ndarray) -> None:
                numbers = text_numbers[part].tolist()
                made.update(zip(numbers, score(read, row[part], numbers), strict=True))

            # a copy of the prefix is read with every text
            self._parts.run(read.mask.shape[1] + n_tokens[text_numbers], score_part)

        self._batches.run(np.array([prefix.size for prefix in prefixes], dtype=np.int64), compute)
        return [made[number] for number in range(len(texts))]

    def _read_prefixes(self, prefixes: Sequence[np.ndarray]) -> _Read:
        """Read prefixes with a causal model; they end together, so that texts begin together."""
        ids, mask = padded(prefixes, self._machine, is_left=True)
        more: dict[str, Any] = {"logits_to_keep": 1} if self._takes_kept else {}
        if self._takes_positions:
            more["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
        out = self._model(input_ids=ids, attention_mask=mask, use_cache=True, **more)
        if getattr(out, "past_key_values", None) is None:
            raise ValueError(self._not_causal("which keeps no keys and values"))
        return _Read(_log_softmax(out.logits[:, -1]), out.past_key_values, mask)

    def _encode(self, prefixes: Sequence[np.ndarray]) -> _Read:
        """Read prefixes with an encoder, and the token that every text begins with."""
        from transformers.modeling_outputs import BaseModelOutput

        ids, mask = padded(prefixes, self._machine)
        encoder = self._model.get_encoder()
        states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        out = self._model(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            decoder_input_ids=torch.full_like(ids[:, :1], self._start),
            use_cache=True,
        )
        return _Read(_log_softmax(out.logits[:, -1]), out.past_key_values, mask, states)

    def _after(
        self, read: _Read, rows: np.ndarray, texts: Sequence[np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Score texts after the prefixes in some rows."""
        row = self._machine.send(rows)
        labels, label_mask = padded(texts, self._machine)
        log_p = read.first[row].gather(1, labels[:, :1])
        if labels.shape[1] > 1:
            rest = self._predict(read, row, labels[:, :-1], label_mask[:, :-1])
            log_p = torch.cat(
                [log_p, _log_softmax(rest).gather(2, labels[:, 1:, None])[:, :, 0]], 1
            )
        together = log_p.double().cpu().numpy()
        for values, text in zip(together, texts, strict=True):
            yield values[: text.size].copy()

    def _predict(
        self,
        read: _Read,
        row: torch.Tensor,
        ids: torch.Tensor,
        mask: torch.Tensor,
        places: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the logits after every token, shape (n_texts, n_tokens, n_words).

        A model that can do so predicts after the tokens at some places alone.
        """
        from transformers.modeling_outputs import BaseModelOutput

        past, prefix_mask = _select(read.past, row), read.mask[row]
        given: dict[str, Any] = {"past_key_values": past, "use_cache": True}
        if read.states is not None:
            states = BaseModelOutput(last_hidden_state=read.states[row])
            given |= {
                "encoder_outputs": states,
                "attention_mask": prefix_mask,
                "decoder_input_ids": ids,
            }
        else:
            given |= {"input_ids": ids, "attention_mask": torch.cat([prefix_mask, mask], 1)}
            if self._takes_positions:  # padding gets no new ones: the model may have no more
                given["position_ids"] = prefix_mask.sum(1, keepdim=True) + mask.cumsum(1) - 1
            if places is not None and self._takes_kept:
                given["logits_to_keep"] = places
        return self._model(**given).logits

    def _check(self) -> None:
        """Hold the pass over parts to the pass over everything, which reads a text with its end."""
        prefix, texts = _PROBE
        log_p = self.log_probabilities([prefix], texts, np.zeros(len(texts), dtype=np.int64))
        bound = 10 * SCORE_TOLERANCE[self._machine.precision]
        for text, values in zip(texts, log_p, strict=True):
            if not np.allclose(values, self._whole(prefix, text), rtol=bound, atol=bound):
                raise ValueError(
                    self._not_causal("whose predictions change with what comes after them")
                )

    def _not_causal(self, why: str) -> str:
        return (
            f"`{self._name}` must predict each token from those before it, as a causal model does, "
            f"got a {type(self._model).__name__}, {why}"
        )

    @torch.inference_mode()
    def _whole(self, prefix: np.ndarray, text: np.ndarray) -> np.ndarray:
        """Score one text in one pass without anything kept."""
        ids = self._machine.send(np.concatenate([prefix, text]))[None]
        if not self._has_encoder:
            logits = self._model(input_ids=ids, use_cache=False).logits[:, prefix.size - 1 : -1]
        else:
            labels = ids[:, prefix.size :]
            begun = torch.cat([torch.full_like(labels[:, :1], self._start), labels[:, :-1]], 1)
            logits = self._model(
                input_ids=ids[:, : prefix.size], decoder_input_ids=begun, use_cache=False
            ).logits
        log_p = _log_softmax(logits[0])[torch.arange(text.size), ids[0, prefix.size :]]
        return log_p.double().cpu().numpy()


@dataclass(frozen=True, slots=True)
class _Read:
    """Prefixes that a model has read."""

    first: torch.Tensor
    """Log-probabilities of the first token after each, float32, shape (n, n_words)."""
    past: Any  # their keys and values, a `Cache` of transformers
    mask: torch.Tensor  # places that are theirs, shape (n, width)
    states: torch.Tensor | None = None  # what an encoder made of them


def _select(past: Any, rows: torch.Tensor) -> Any:  # noqa: ANN401  (transformers has no types)
    """Copy some rows of keys and values; a row may be named twice."""
    parts: list[Any] = []
    caches: tuple[Any, ...] = (past,)
    if hasattr(past, "cross_attention_cache"):  # of an encoder and a decoder
        caches = (past.self_attention_cache, past.cross_attention_cache)
    for part in caches:
        copied = copy.copy(part)
        # `reorder_cache` puts new tensors into a layer and leaves the old ones as they are
        copied.layers = [copy.copy(layer) for layer in part.layers]
        copied.reorder_cache(rows)
        parts.append(copied)
    return parts[0] if len(parts) == 1 else type(past)(*parts)


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.float(), -1)
