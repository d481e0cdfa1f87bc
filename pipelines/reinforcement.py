"""Trains a summariser with metrics as rewards, from files of pairs to scores of what they write.

The order: the request is checked, the pairs are split and dealt into files, a summariser learns
by maximum likelihood, from there once more for every reward, and all of them summarise the test
documents, which are scored and compared. Every finished summariser is a folder of its own; what is
needed to go on lies in `training/`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from cluster import list_inputs, with_content
from cluster.fetching import fetch
from pipelines import training_runs
from pipelines.compare import compare
from pipelines.fetched import check_on_disk
from pipelines.prepare_pairs import prepare_pairs
from pipelines.reports.comparison import ScoreComparison
from pipelines.runs.forks import with_threads
from pipelines.score import score_corpus
from pipelines.settings.compare import CompareSettings
from pipelines.settings.form import shared_fields
from pipelines.settings.reinforce import HUGGING_FACE, POINTER, ReinforceSettings
from pipelines.settings.score import ScoreSettings
from reffree.neural.checkpoint import CHECKPOINT_FILE, replace_file
from reffree.neural.loop import BEST_FILE
from reffree.training_pairs.buckets import bucket_paths
from reffree.training_pairs.examples import PreparedPairs
from reinforce.documents import Document, batches_of, read_documents
from reinforce.hugging_face import load_transformers
from reinforce.learning import first_summariser, learn_stage, load_summariser
from reinforce.stages import RewardConfig, StageConfig, Summariser
from reinforce.summarisers import SUMMARISER_FILE, Limits
from sms.config import ScoringConfig
from sms.file_hashes import hash_of_files
from sms.metrics.baselines import LEAD_SENTENCES
from sms.naming import OneOrMore, several
from sms.reward import Reward, weights_of
from sms.text import split_sentences

RESULTS_FILE = "results.json"
SCORES_FOLDER = "scores"
SUMMARIES_FILE = "summaries.parquet"
REQUEST_FILE = "request.json"
START_FOLDER = "start"
LIKELIHOOD = "mle"
"""The summariser that knows no reward: its folder and its `system_id`."""
CONTROL = "mle+mle"
"""One that goes on from there as long as the others, and without a reward: what those are better
by than this one is due to the reward."""
LEAD = f"lead-{LEAD_SENTENCES}"
METRICS = ("rouge1", "rouge2", "rougeL", "wms", "sms", "s+wms", "length", "repetition")
"""By which all are compared, and by what their rewards add up."""
_NO_MATTER = (
    "out", "fresh", "on_progress", "on_news", "start", "threads", "device", "gpus_per_worker",
    "address", "insecure_cluster",
)  # fmt: skip
"""Settings that change no result, or are told apart otherwise."""

_Stage: TypeAlias = tuple[str, Path, StageConfig, RewardConfig | None]
"""Its system, the summariser it begins with, how it learns, what it is rewarded for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinforcedSummarisers:
    """The result of a run."""

    out: str
    pairs: PreparedPairs
    systems: tuple[str, ...]
    """Trained ones, each a folder in `out` of that name (`/` and `:` as `-`)."""
    n_test_documents: int
    comparison: ScoreComparison
    """Of what was learnt with a reward, and of leads, with what was learnt without one."""


@with_threads
def reinforce(paths: OneOrMore, settings: ReinforceSettings) -> ReinforcedSummarisers:
    """Train summarisers by maximum likelihood and with rewards, and compare them.

    A summariser to `start` from must not have seen this run's test documents.
    """
    run = _Run(settings)
    to_train = run.prepare(several(paths))
    if settings.threads is not None:
        import torch

        torch.set_num_threads(settings.threads)
    for stage in to_train:
        run.train(*stage)
    systems = tuple(system for system, *_ in to_train)
    run.tell("summarising the test documents")
    buckets = bucket_paths(run.training / training_runs.PAIRS_FOLDER, "test")
    documents = list(read_documents(buckets, seed=0))
    summaries = run.summaries(systems, documents)
    replace_file(run.folder / SUMMARIES_FILE, lambda path: pq.write_table(summaries, path))
    comparison = run.compared(systems)
    run.finish()
    return ReinforcedSummarisers(
        out=str(run.folder),
        pairs=run.pairs,
        systems=systems,
        n_test_documents=len(documents),
        comparison=comparison,
    )


class _Run:
    """A run and what its steps share; a request is checked before anything is written or learnt."""

    request: dict[str, Any]
    """All that the result depends on, with its fingerprint."""
    pairs: PreparedPairs

    def __init__(self, settings: ReinforceSettings) -> None:
        self.settings, self.tell = settings, training_runs.stages(settings.on_progress)
        check_on_disk(model=settings.model, vectors=settings.vectors, encoder=settings.encoder)
        shared = shared_fields(StageConfig, settings)
        self.likelihood = StageConfig(is_decaying=settings.decay, **shared)
        self.mixed = replace(
            self.likelihood,
            learning_rate=settings.mixed_learning_rate,
            is_decaying=False,
            epochs=settings.mixed_epochs,
        )
        self.rewards = [
            RewardConfig(
                metric=metric,
                gamma_first=settings.gamma,
                n_drawn=settings.drawn,
                **shared_fields(RewardConfig, settings),
            )
            for metric in settings.reward
        ]
        for metric in settings.reward:
            Reward(metric, encoder=settings.encoder, threads=settings.threads, device="cpu")
        self.folder = training_runs.checked_folder(
            settings.out,
            result=RESULTS_FILE,
            called="a finished run",
            begun=REQUEST_FILE,
            is_resumed=not settings.fresh,
        )
        self.training = self.folder / training_runs.TRAINING_FOLDER

    def prepare(self, paths: Sequence[str]) -> list[_Stage]:
        """Prepare the pairs and the first summariser; return what is to be trained."""
        settings = self.settings
        start = None if settings.start is None else Path(fetch(os.fspath(settings.start)))
        asked = {
            "settings": {k: v for k, v in vars(settings).items() if k not in _NO_MATTER},
            "inputs": [file.to_json() for file in with_content(list_inputs(paths))],
            "start": None if start is None else _content_of(start),
        }
        self.request = {**asked, "fingerprint": training_runs.fingerprint_of(asked)}
        path, training = self.training / REQUEST_FILE, self.training
        had_request = path.exists()
        known = json.loads(path.read_text("utf-8")) if had_request else self.request
        if known.get("fingerprint") != self.request["fingerprint"]:
            raise ValueError(
                f"`{self.folder}` holds a run with other data, options, versions or number of "
                "workers; give the same ones again, or train into another folder"
            )
        first, likely = training / START_FOLDER, self.folder / LIKELIHOOD
        with training_runs.undone_if_wrong(self.folder, lambda: had_request):
            self.tell("reading the pairs")
            training.mkdir(parents=True, exist_ok=True)
            replace_file(path, lambda file: file.write_text(json.dumps(self.request)))
            where = training / training_runs.PAIRS_FOLDER
            self.pairs = prepare_pairs(paths, where, settings, seed=settings.seed)
            if start is not None and not (likely / SUMMARISER_FILE).exists():
                load_summariser(start).save(likely)
            elif start is None and not (first / SUMMARISER_FILE).exists():
                self._first().save(first)
        control = replace(self.rewards[0], gamma_first=0.0, gamma_last=0.0, kl=0.0)
        rewarded = {CONTROL: control} if settings.control else {}
        rewarded |= {f"{LIKELIHOOD}+{reward.metric}": reward for reward in self.rewards}
        return [
            (LIKELIHOOD, first, self.likelihood, None),
            *((name, likely, self.mixed, reward) for name, reward in rewarded.items()),
        ]

    def _first(self) -> Summariser:
        """Make a summariser that has not learnt anything yet."""
        settings = self.settings
        limits = Limits(source_words=settings.source_words, summary_words=settings.summary_words)
        if settings.model != POINTER:
            return load_transformers(settings.model.removeprefix(HUGGING_FACE), limits)
        return first_summariser(
            self.pairs.folder,
            limits,
            vocabulary_size=settings.vocabulary_size,
            vectors=settings.vectors,
            n_dimensions=settings.dimensions,
            n_hidden=settings.hidden,
            n_layers=settings.layers,
            dropout=settings.dropout,
            seed=settings.seed,
        )

    def train(
        self, system: str, begins_with: Path, config: StageConfig, reward: RewardConfig | None
    ) -> None:
        """Train a summariser through a stage and save it, unless it is."""
        self.tell(f"training {system}")
        saved, settings = self.folder / _folder_name(system), self.settings
        if (saved / SUMMARISER_FILE).exists():
            return
        folder = self.training / _folder_name(system)
        work = partial(
            learn_stage,
            begins_with,
            self.pairs.folder,
            folder,
            config,
            reward,
            fingerprint=self.request["fingerprint"],
            threads=settings.threads,
        )
        if settings.uses_ray:
            training_runs.train_on_ray(work, folder, settings)
        # Where workers have finished, this only takes their weights.
        summariser, state = work(device=settings.own_device, on_news=settings.on_news)
        about = {
            "stage": "mle" if reward is None else "control" if reward.is_control else "mixed",
            "reward": None if reward is None else asdict(reward),
            "config": asdict(config),
            "steps": state.step,
            "best_step": state.best_step,
            "epochs": state.epoch,
            # In the stage with reward the loss is minus the reward; the reward is recorded.
            "best_validation": state.best_loss if reward is None else -state.best_loss,
        }
        saved.mkdir(exist_ok=True)
        (saved / "training.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
        summariser.save(saved)
        for name in (CHECKPOINT_FILE, BEST_FILE):
            (folder / name).unlink(missing_ok=True)

    def summaries(self, systems: Sequence[str], documents: Sequence[Document]) -> pa.Table:
        """Let every system summarise the documents, and take their first sentences."""
        of_system: dict[str, list[str]] = {LEAD: []}
        for document in documents:
            sentences = [each.strip() for each in split_sentences(document.source, "en")]
            of_system[LEAD].append(" ".join(list(filter(None, sentences))[:LEAD_SENTENCES]))
        device, settings = self.settings.own_device, self.settings
        for system in systems:
            summariser = load_summariser(self.folder / _folder_name(system))
            summariser.module.to(device).eval()
            written: dict[int, str] = {}
            for part in batches_of(iter(documents), size=settings.batch_size):
                batch = summariser.batch(part, [each.reference(0) for each in part], device)
                best = summariser.search(
                    batch, width=settings.beam, blocks_trigrams=settings.block_trigrams
                )
                texts = summariser.texts(batch, best)
                written |= dict(zip(map(id, part), texts, strict=True))
            of_system[system] = [written[id(document)] for document in documents]
        columns = {
            "document_id": [each.document_id for each in documents] * len(of_system),
            "system_id": [system for system in of_system for _ in documents],
            "source": [each.source for each in documents] * len(of_system),
            "references": [each.references for each in documents] * len(of_system),
            "candidate": list(chain(*of_system.values())),
        }
        return pa.table(columns)

    def compared(self, systems: Sequence[str]) -> ScoreComparison:
        """Score the summaries under every metric, and compare those of rewards with the others."""
        self.tell("scoring the summaries")
        scores = self.folder / SCORES_FOLDER
        asked = ScoringConfig(metrics=METRICS).asked
        known = {column for metric in asked for column in metric.columns}
        parts = dict.fromkeys(name for each in self.rewards for name in weights_of(each.metric))
        scoring = ScoreSettings(
            out=scores,
            metrics=(*METRICS, *(name for name in parts if name not in known)),
            encoders={"encoder": self.settings.encoder},
            cpus_per_worker=self.settings.threads,
            local=True,
            on_progress=self.settings.on_progress,
        )
        run = score_corpus(self.folder / SUMMARIES_FILE, scoring)
        if not run.is_complete:
            reason = next(iter(run.failed_shards.values()))
            raise RuntimeError(f"some summaries could not be scored: {reason}")
        baselines = [system for system in (LIKELIHOOD, CONTROL) if system in systems]
        others = [LEAD, *(system for system in systems if system not in baselines)]
        settings = CompareSettings(systems_a=others, systems_b=baselines, seed=self.settings.seed)
        return compare(scores, scores, settings)

    def finish(self) -> None:
        """Write the last file of a run, which says that it is finished, and tidy up."""
        results = {
            "request": self.request,
            "pairs": dict(self.pairs.n_pairs),
            "left_out": dict(self.pairs.left_out),
        }
        text = json.dumps(results, indent=2) + "\n"
        replace_file(self.folder / RESULTS_FILE, lambda path: path.write_text(text, "utf-8"))
        for name in (training_runs.PAIRS_FOLDER, START_FOLDER):
            shutil.rmtree(self.training / name, ignore_errors=True)
        for folder in self.training.iterdir():
            shutil.rmtree(folder / training_runs.RAY_FOLDER, ignore_errors=True)
        (self.training / REQUEST_FILE).unlink(missing_ok=True)


def _folder_name(system: str) -> str:
    return re.sub(r"[/:*\s]+", "-", system)


def _content_of(start: Path) -> str:
    if not (start / SUMMARISER_FILE).is_file():
        raise ValueError(f"`start` must be a summariser's folder, got {start}")
    return hash_of_files(sorted(path for path in start.iterdir() if path.is_file()))
