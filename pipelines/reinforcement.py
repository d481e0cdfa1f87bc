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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from cluster import list_inputs, with_content
from cluster.fetching import fetch
from pipelines.compare import compare_scores
from pipelines.fetched import check_on_disk
from pipelines.prepare_pairs import prepare_pairs
from pipelines.reports.comparison import ScoreComparison
from pipelines.runs.progress import Progress
from pipelines.score import score_corpus
from pipelines.settings.compare import CompareSettings
from pipelines.train_on_ray import train_on_ray
from pipelines.training_folder import (
    PAIRS_FOLDER,
    RAY_FOLDER,
    TRAINING_FOLDER,
    Machines,
    checked_folder,
    fingerprint_of,
    undone_if_wrong,
)
from reffree.buckets import bucket_paths
from reffree.checkpoint import CHECKPOINT_FILE, TrainNews, replace_file
from reffree.examples import PreparedPairs
from reffree.hashing import check_seed
from reffree.loop import BEST_FILE
from reinforce.decoding import BeamConfig
from reinforce.documents import Document, batches_of, read_documents
from reinforce.learning import (
    StageJob,
    SummariserConfig,
    first_summariser,
    learn_stage,
    load_summariser,
    make_reward,
)
from reinforce.stages import RewardConfig, StageConfig
from reinforce.summarisers import SUMMARISER_FILE
from sms.baselines import LEAD_SENTENCES
from sms.config import ScoringConfig
from sms.file_hashes import hash_of_files
from sms.naming import AnyPath, OneOrMore, several
from sms.reward import weights_of
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

_Stage: TypeAlias = tuple[str, Path, StageConfig, RewardConfig | None]
"""Its system, the summariser it begins with, how it learns, what it is rewarded for."""

SUMMARIES_SCHEMA = pa.schema(
    {
        "document_id": pa.string(),
        "system_id": pa.string(),
        "source": pa.string(),
        "references": pa.list_(pa.string()),
        "candidate": pa.string(),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinforceRecipe:
    """All that decides what the summarisers become, given the pairs."""

    summariser: SummariserConfig
    likelihood: StageConfig
    mixed: StageConfig
    rewards: tuple[RewardConfig, ...]
    beam: BeamConfig
    has_control: bool = True
    """Whether `CONTROL` is trained; the first reward chooses its checkpoint."""
    seed: int = 0
    """Of the split and the first weights; the stages have their own."""

    def systems(self) -> dict[str, RewardConfig]:
        """Return what is trained after the likelihood, by name."""
        control = replace(self.rewards[0], gamma_first=0.0, gamma_last=0.0, kl=0.0)
        first = {CONTROL: control} if self.has_control else {}
        return first | {f"{LIKELIHOOD}+{reward.metric}": reward for reward in self.rewards}

    def metrics(self) -> tuple[str, ...]:
        """Return `METRICS` and whatever else the rewards add up."""
        requests = ScoringConfig(metrics=METRICS).requests
        known = {column for request in requests for column in request.columns}
        parts = dict.fromkeys(name for each in self.rewards for name in weights_of(each.metric))
        return (*METRICS, *(name for name in parts if name not in known))

    def __post_init__(self) -> None:
        check_seed(self.seed)
        names = [reward.metric for reward in self.rewards]
        if not names:
            raise ValueError("`reward` must name at least one metric; see `assay metrics`")
        if len(set(names)) < len(names):
            raise ValueError(f"`reward` must not name a metric twice, got {', '.join(names)}")


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


def reinforce_summariser(
    paths: OneOrMore,
    out: AnyPath,
    recipe: ReinforceRecipe,
    *,
    start: AnyPath | None = None,
    test_documents: int | None = None,
    machines: Machines | None = None,
    threads: int | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    on_news: Callable[[TrainNews], None] | None = None,
    **of_pairs: Any,  # noqa: ANN401
) -> ReinforcedSummarisers:
    """Train summarisers by maximum likelihood and with rewards, and compare them.

    `start` is a folder or URL of a summariser (such as `mle` of another run) to begin with; then
    no other is trained by maximum likelihood. It must not have seen this run's test documents, of
    which `test_documents` are summarised, or all. `threads` are those of a process, its network
    and its reward. All else is as in `train_scorer`.
    """
    paths = several(paths)
    run = _Run(
        folder=_checked(out, recipe, threads, is_resumed=resume),
        recipe=recipe,
        start=None if start is None else Path(fetch(os.fspath(start))),
        machines=machines or Machines(),
        threads=threads,
        tell=on_progress or (lambda _progress: None),
        on_news=on_news,
    )
    stages = run.prepare(paths, of_pairs)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    for stage in stages:
        run.train(*stage)
    systems = tuple(system for system, *_ in stages)
    run.tell(Progress(stage="summarising the test documents"))
    buckets = bucket_paths(run.training / PAIRS_FOLDER, "test")
    documents = list(islice(read_documents(buckets, seed=0), test_documents))
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


@dataclass(slots=True, kw_only=True)
class _Run:
    """A run, and what its steps share."""

    folder: Path
    recipe: ReinforceRecipe
    start: Path | None
    machines: Machines
    threads: int | None
    tell: Callable[[Progress], None]
    on_news: Callable[[TrainNews], None] | None
    request: dict[str, Any] = field(init=False)
    """All that the result depends on, with its fingerprint."""
    pairs: PreparedPairs = field(init=False)

    @property
    def training(self) -> Path:
        """Folder of what is needed to go on."""
        return self.folder / TRAINING_FOLDER

    def prepare(self, paths: Sequence[str], of_pairs: Mapping[str, Any]) -> list[_Stage]:
        """Prepare the pairs and the first summariser; return what is to be trained."""
        asked = {
            "recipe": asdict(self.recipe),
            "inputs": [file.to_json() for file in with_content(list_inputs(paths))],
            "start": None if self.start is None else _content_of(self.start),
            "columns": dict(of_pairs.get("columns") or {}),
            "limit": of_pairs.get("limit"),
            "split_anew": bool(of_pairs.get("split_anew")),
            "workers": self.machines.workers,
        }
        self.request = {**asked, "fingerprint": fingerprint_of(asked)}
        path, training = self.training / REQUEST_FILE, self.training
        had_request = path.exists()
        known = json.loads(path.read_text("utf-8")) if had_request else self.request
        if known.get("fingerprint") != self.request["fingerprint"]:
            raise ValueError(
                f"`{self.folder}` holds a run with other data, options, versions or number of "
                "workers; give the same ones again, or train into another folder"
            )
        with undone_if_wrong(self.folder, lambda: had_request):
            self.tell(Progress(stage="reading the pairs"))
            training.mkdir(parents=True, exist_ok=True)
            replace_file(path, lambda file: file.write_text(json.dumps(self.request)))
            seed = self.recipe.seed
            self.pairs = prepare_pairs(paths, training / PAIRS_FOLDER, seed=seed, **of_pairs)
            first, likely = training / START_FOLDER, self.folder / LIKELIHOOD
            if self.start is not None and not (likely / SUMMARISER_FILE).exists():
                load_summariser(self.start).save(likely)
            elif self.start is None and not (first / SUMMARISER_FILE).exists():
                first_summariser(self.recipe.summariser, self.pairs.folder, seed=seed).save(first)
        rewarded = self.recipe.systems().items()
        return [
            (LIKELIHOOD, first, self.recipe.likelihood, None),
            *((name, likely, self.recipe.mixed, reward) for name, reward in rewarded),
        ]

    def train(
        self, system: str, begins_with: Path, config: StageConfig, reward: RewardConfig | None
    ) -> None:
        """Train a summariser through a stage and save it, unless it is."""
        self.tell(Progress(stage=f"training {system}"))
        saved = self.folder / _folder_name(system)
        if (saved / SUMMARISER_FILE).exists():
            return
        n_documents = sum(1 for _ in read_documents(bucket_paths(self.pairs.folder, "train")))
        job = StageJob(
            start=begins_with,
            pairs=self.pairs.folder,
            folder=self.training / _folder_name(system),
            n_documents=n_documents,
            config=config,
            reward=reward,
            fingerprint=self.request["fingerprint"],
            threads=self.threads,
        )
        if self.machines.uses_ray:
            train_on_ray(partial(learn_stage, job), job.folder, self.machines)
        # Where workers have finished, this only takes their weights.
        summariser, state = learn_stage(job, device=self.machines.own_device, on_news=self.on_news)
        about = {
            "stage": "mle" if reward is None else "control" if reward.is_control else "mixed",
            "reward": None if reward is None else asdict(reward),
            "config": asdict(config),
            "steps": state.step,
            "best_step": state.best_step,
            "epochs": state.epoch,
            # Of the stage with reward, the reward itself is kept: its loss is minus that.
            "best_validation": state.best_loss if reward is None else -state.best_loss,
        }
        saved.mkdir(exist_ok=True)
        (saved / "training.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
        summariser.save(saved)
        for name in (CHECKPOINT_FILE, BEST_FILE):
            (job.folder / name).unlink(missing_ok=True)

    def summaries(self, systems: Sequence[str], documents: Sequence[Document]) -> pa.Table:
        """Let every system summarise the documents, and take their first sentences."""
        of_system = {LEAD: [_lead(document.source) for document in documents]}
        device = self.machines.own_device
        for system in systems:
            summariser = load_summariser(self.folder / _folder_name(system))
            summariser.module.to(device).eval()
            written: dict[int, str] = {}
            for part in batches_of(iter(documents), size=self.recipe.mixed.batch_size):
                batch = summariser.batch(part, [each.reference(0) for each in part], device)
                texts = summariser.texts(batch, summariser.search(batch, self.recipe.beam))
                written |= dict(zip(map(id, part), texts, strict=True))
            of_system[system] = [written[id(document)] for document in documents]
        rows = [
            {
                "document_id": document.document_id,
                "system_id": system,
                "source": document.source,
                "references": list(document.references),
                "candidate": text,
            }
            for system, texts in of_system.items()
            for document, text in zip(documents, texts, strict=True)
        ]
        return pa.Table.from_pylist(rows, schema=SUMMARIES_SCHEMA)

    def compared(self, systems: Sequence[str]) -> ScoreComparison:
        """Score the summaries under every metric, and compare those of rewards with the others."""
        self.tell(Progress(stage="scoring the summaries"))
        scores = self.folder / SCORES_FOLDER
        run = score_corpus(
            self.folder / SUMMARIES_FILE,
            scores,
            metrics=self.recipe.metrics(),
            encoders={"encoder": self.recipe.rewards[0].encoder},
            cpus_per_worker=self.threads,
            local=True,
            on_progress=self.tell,
        )
        if not run.is_complete:
            reason = next(iter(run.failed_shards.values()))
            raise RuntimeError(f"some summaries could not be scored: {reason}")
        baselines = [system for system in (LIKELIHOOD, CONTROL) if system in systems]
        others = [LEAD, *(system for system in systems if system not in baselines)]
        settings = CompareSettings(systems_a=others, systems_b=baselines, seed=self.recipe.seed)
        return compare_scores(scores, scores, settings)

    def finish(self) -> None:
        """Write the last file of a run, which says that it is finished, and tidy up."""
        results = {
            "request": self.request,
            "pairs": dict(self.pairs.n_pairs),
            "left_out": dict(self.pairs.left_out),
        }
        text = json.dumps(results, indent=2) + "\n"
        replace_file(self.folder / RESULTS_FILE, lambda path: path.write_text(text, "utf-8"))
        for name in (PAIRS_FOLDER, START_FOLDER):
            shutil.rmtree(self.training / name, ignore_errors=True)
        for folder in self.training.iterdir():
            shutil.rmtree(folder / RAY_FOLDER, ignore_errors=True)
        (self.training / REQUEST_FILE).unlink(missing_ok=True)


def _checked(
    out: AnyPath, recipe: ReinforceRecipe, threads: int | None, *, is_resumed: bool
) -> Path:
    """Check a request before anything is written or learnt; return the folder."""
    if threads is not None and threads < 1:
        raise ValueError(f"`threads` must be at least 1, got {threads}")
    check_on_disk(
        model=recipe.summariser.model,
        vectors=recipe.summariser.vectors,
        encoder=recipe.rewards[0].encoder,
    )
    for reward in recipe.rewards:
        make_reward(reward, threads=threads, device="cpu")
    return checked_folder(
        out,
        result=RESULTS_FILE,
        called="a finished run",
        begun=REQUEST_FILE,
        is_resumed=is_resumed,
    )


def _lead(source: str) -> str:
    """Return the first sentences of a document."""
    sentences = [text.strip() for text in split_sentences(source, "en") if text.strip()]
    return " ".join(sentences[:LEAD_SENTENCES])


def _folder_name(system: str) -> str:
    return re.sub(r"[/:*\s]+", "-", system)


def _content_of(start: Path) -> str:
    """Hash the files of a summariser."""
    if not (start / SUMMARISER_FILE).is_file():
        raise ValueError(f"`start` must be a summariser's folder, got {start}")
    return hash_of_files(sorted(path for path in start.iterdir() if path.is_file()))
