"""Any encoder-decoder model of the transformers library as a summariser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from reffree.neural.checkpoint import replace_file
from reinforce.documents import Document
from reinforce.summarisers import SUMMARISER_FILE, Limits, SummaryBatch


class ScoredSummaries(nn.Module):
    """An encoder and decoder, such as BART or T5, that gives the log-probabilities of summaries."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401  (transformers has no common type)
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, targets: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Return the log-probability of every piece of several summaries of the documents."""
        encoded = self.model.get_encoder()(
            input_ids=input_ids, attention_mask=attention_mask, return_dict=True
        )
        found = []
        for target in targets:
            logits = self.model(
                encoder_outputs=encoded,
                attention_mask=attention_mask,
                decoder_input_ids=self.model.prepare_decoder_input_ids_from_labels(target),
                use_cache=False,
            ).logits
            logs = functional.log_softmax(logits.float(), dim=2)
            found.append(logs.gather(2, target[..., None]).squeeze(2))
        return found


class TransformersSummariser:
    """A model of transformers with its tokenizer.

    What the model's own folder says of generation (least lengths, forced or forbidden pieces) is
    dropped: a summary is drawn from the probabilities that the loss sees. Limits are in pieces.
    """

    def __init__(self, model: Any, tokenizer: Any, limits: Limits) -> None:  # noqa: ANN401
        from transformers import GenerationConfig

        self.module = ScoredSummaries(model)
        self._model, self._tokenizer, self.limits = model, tokenizer, limits
        config = model.config
        if config.pad_token_id is None:
            raise ValueError("`model` must have a token for padding, got none in its configuration")
        self._padding = int(config.pad_token_id)
        # `generate` fills every field that a call leaves open from the model's own settings.
        model.generation_config = GenerationConfig(
            bos_token_id=getattr(config, "bos_token_id", None),
            eos_token_id=config.eos_token_id,
            pad_token_id=self._padding,
            decoder_start_token_id=model.generation_config.decoder_start_token_id,
        )

    def batch(
        self, documents: Sequence[Document], references: Sequence[str], device: str
    ) -> SummaryBatch:
        """Cut texts into pieces."""
        options = {"truncation": True, "padding": True, "return_tensors": "pt"}
        texts, n_words = [document.source for document in documents], self.limits.summary_words
        sources = self._tokenizer(texts, max_length=self.limits.source_words, **options)
        targets = self._tokenizer(text_target=list(references), max_length=n_words + 1, **options)
        target = targets["input_ids"].masked_fill(targets["attention_mask"] == 0, self._padding)
        inputs = {name: sources[name].to(device) for name in ("input_ids", "attention_mask")}
        return SummaryBatch(inputs, target.to(device), tuple(documents))

    def is_counted(self, target: torch.Tensor) -> torch.Tensor:
        """Count all but padding."""
        return target != self._padding

    def greedy_and_drawn(
        self, batch: SummaryBatch, n_drawn: int
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Write the likeliest pieces, then draw summaries; documents are read once."""
        with torch.no_grad():
            encoded = self._model.get_encoder()(**batch.inputs, return_dict=True)
        mask = batch.inputs["attention_mask"]
        batch = replace(batch, inputs={"encoder_outputs": encoded, "attention_mask": mask})
        # All pieces may be drawn: the library's own default is the 50 likeliest.
        options = {"do_sample": True, "top_k": 0, "top_p": 1.0}
        greedy = self._generate(batch, do_sample=False)
        return greedy, [self._generate(batch, **options) for _ in range(n_drawn)]

    def search(
        self, batch: SummaryBatch, *, width: int, blocks_trigrams: bool = False
    ) -> torch.Tensor:
        """Search by the library's beam search, by log-probability per piece."""
        options: dict[str, Any] = {"num_beams": width, "length_penalty": 1.0}
        if blocks_trigrams:
            options["no_repeat_ngram_size"] = 3
        return self._generate(batch, do_sample=False, **options)

    def texts(self, batch: SummaryBatch, summaries: torch.Tensor) -> list[str]:
        """Put pieces together."""
        texts = self._tokenizer.batch_decode(summaries, skip_special_tokens=True)
        return [str(text).strip() for text in texts]

    def save(self, folder: Path) -> None:
        """Write the model as the library does, and the limits."""
        folder.mkdir(parents=True, exist_ok=True)
        self._model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)
        text = json.dumps({"model": "hf", "limits": asdict(self.limits)})
        replace_file(folder / SUMMARISER_FILE, lambda path: path.write_text(text, "utf-8"))

    @torch.no_grad()
    def _generate(self, batch: SummaryBatch, **options: Any) -> torch.Tensor:  # noqa: ANN401
        options = {"max_new_tokens": self.limits.summary_words + 1, "num_beams": 1} | options
        written = self._model.generate(**batch.inputs, **options)
        summaries: torch.Tensor = written[:, 1:]  # the start is no piece of the summary
        return summaries


def load_transformers(path: str, limits: Limits) -> TransformersSummariser:
    """Load a model and its tokenizer."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    try:
        model = AutoModelForSeq2SeqLM.from_pretrained(path)
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"`--model` must name an encoder-decoder model of transformers, got hf:{path} "
            f"({reason})"
        ) from error
    return TransformersSummariser(model, tokenizer, limits)
