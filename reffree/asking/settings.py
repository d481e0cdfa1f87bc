"""What a language model is asked and how a score is made of its answers: `AskOptions`.

`presets.toml` has prompts. Nothing here asks a model.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from sms.naming import AnyPath, nearest
from sms.settings import ASIDE, AtLeast, Settings
from sms.urls import check_no_secrets

SOURCE, CANDIDATE = "{source}", "{candidate}"
REFERENCE, REFERENCES = "{reference}", "{references}"
ASPECT = "{aspect}"
PLACES = (SOURCE, CANDIDATE, REFERENCE, REFERENCES, ASPECT)
_PLACE = re.compile(r"\{[a-z_]+\}")
MOST_LABELS = 101
"""Answers that a question may have: those of a scale from 0 to 100."""
ANSWER, REASONING = "answer", "reasoning"
"""Keys of an answer in JSON."""
_OF_SERVERS = ("model", "api_key_env", "api_key_file", "seed", "reasoning", "extra", "repeat_share")

_Table = Mapping[str, Any]


def _numbers_by_label(given: object) -> dict[str, float]:
    """Read the answers of a question that is not about a scale, each with its number."""
    is_table = isinstance(given, Mapping) and 2 <= len(given) <= MOST_LABELS
    if not is_table or not all(
        isinstance(label, str)
        and re.fullmatch(r"\w+", label)
        and isinstance(number, int | float)
        and not isinstance(number, bool)
        for label, number in given.items()  # type: ignore[attr-defined]
    ):
        raise ValueError(
            "`choices` of a question must be a table of two or more words, each with a number, "
            f"such as {{Yes = 1, No = 0}}, got {given!r}"
        )
    return {label: float(number) for label, number in given.items()}  # type: ignore[attr-defined]


def _fields_of_body(given: object) -> dict[str, Any]:
    """Read what is sent with every question as it is."""
    if not isinstance(given, Mapping):
        raise ValueError(f"`extra` of a question must be a table, got {given!r}")
    try:
        json.dumps(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`extra` of a question must be plain values, got {given!r}") from error
    if ours := {"messages", "model", "stream", "n"} & {*given}:
        raise ValueError(f"`extra` of a question must not set `{min(ours)}`; leave it out")
    return dict(given)


@dataclass(frozen=True, kw_only=True)
class AskOptions(Settings):
    """The keys of a table `[models.ALIAS]` for `ask@ALIAS`, but for `path` and `preset`."""

    about = " of a question"

    url: str | None = None
    """Address of a server with OpenAI's chat completions interface, up to `/v1`."""
    model: str | None = None
    """Name of the model on the server."""
    api_key_env: str | None = None
    """Environment variable that holds the API key. Default: no key is sent."""
    api_key_file: AnyPath | None = None
    """File that holds the API key, which only its owner may read (mode 600)."""
    prompt: str = ""
    """Question, with `{candidate}` and as needed `{source}`, `{reference}` (asked about each),
    `{references}` (all of them) and `{aspect}`. How to answer is added to it."""
    system: str | None = None
    """System message before the question."""
    aspect: str | None = None
    """What `{aspect}` stands for; of the preset rating one of coherence, consistency, fluency and
    relevance."""
    scale: Annotated[Sequence[int], "LOWEST,HIGHEST"] = (1, 5)
    """Lowest and highest answer, whole numbers."""
    choices: Annotated[Mapping[str, float] | None, _numbers_by_label] = None
    """Answers other than a scale, each with its number, such as {Yes = 1, No = 0}."""
    value: Literal["expected", "top", "mean"] = "expected"
    """The mean of all answers weighted by their probabilities (expected), the answer itself (top),
    or the mean of several answers that were drawn (mean)."""
    samples: Annotated[int, AtLeast(2)] = 8
    """Number of answers that are drawn for the value mean."""
    temperature: float = 1.0
    """Temperature for the value mean; expected and top use 0."""
    seed: int | None = None
    """Seed that is sent with every question; for the value mean it grows by 1 with every draw.
    Default: none is sent."""
    form: Literal["text", "json"] = "text"
    """The answer stands alone (text), or in a JSON object whose schema the server enforces (json).
    """
    reasoning: bool = False
    """Let the model write its reasons before the answer; needs the form json."""
    both_orders: bool = False
    """Ask a second time with candidate and references exchanged, and take the mean. There must be
    two answers, such as {A = 1, B = 0}."""
    max_tokens: Annotated[int | None, AtLeast(1)] = None
    """Maximum number of tokens of an answer. Default: 16, or 1,024 with `reasoning`."""
    top_logprobs: Annotated[int, AtLeast(2)] = 20
    """Tokens whose probabilities are requested at each position, for the value expected."""
    extra: Annotated[Mapping[str, Any] | None, _fields_of_body] = None
    """Further fields of a request, such as {reasoning_effort = "low"}."""
    concurrency: Annotated[int, AtLeast(1), ASIDE] = 16
    """Maximum number of requests of a run at the same time, divided among its workers; fewer while
    the server says that they are too many."""
    timeout_s: Annotated[int, AtLeast(1), ASIDE] = 120
    """Seconds without an answer after which a request is repeated."""
    attempts: Annotated[int, AtLeast(1), ASIDE] = 8
    """Maximum number of requests for one answer; then the shard fails."""
    repeat_share: Annotated[float, ASIDE] = 0.0
    """Share of the questions that are asked a second time, to see whether the answers are the same;
    scores do not change."""
    max_tokens_total: Annotated[int | None, AtLeast(1), ASIDE] = None
    """Stop the run between two shards after N tokens, read and written; with a higher number, the
    same command continues."""
    price_read: Annotated[float, ASIDE] = 0.0
    """Price of a million tokens of questions."""
    price_written: Annotated[float, ASIDE] = 0.0
    """Price of a million tokens of answers."""

    @classmethod
    def of(cls, table: _Table) -> AskOptions:
        """Read a table `[models.ALIAS]` without its path: a preset, and what it has otherwise."""
        cls.check_keys(table, ("preset",))
        options = dict(table)
        name = options.pop("preset", None)
        if name is None:
            return cls(**options)
        if name not in PRESETS:
            raise ValueError(
                f"unknown `preset` {name!r} of a question; {nearest(str(name), PRESETS)}"
            )
        preset = dict(PRESETS[name])
        aspects = preset.pop("aspects", {})
        aspect = options.get("aspect")
        if aspects and aspect is None and "prompt" not in options:
            raise ValueError(
                f"`aspect` must be given for preset {name}: {', '.join(aspects)}, or in your words"
            )
        said = {**preset, **options, **_without(aspects.get(aspect, {}), options)}
        if "scale" in options and "choices" not in options:
            said.pop("choices", None)
        return cls(**said)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "prompt", self.prompt.strip())
        self._check_server()
        self._check_prompt()
        self._check_answers()
        for name in ("temperature", "price_read", "price_written"):
            if not getattr(self, name) >= 0:
                raise _wrong(f"`{name}`", f"be 0 or more, got {getattr(self, name):g}")
        if not 0 <= self.repeat_share <= 1:
            raise _wrong("`repeat_share`", f"be from 0 to 1, got {self.repeat_share:g}")
        if self.reasoning and self.form != "json":
            raise _wrong("`form`", "be json if `reasoning` is set, so that the answer is clear")

    def _check_server(self) -> None:
        if self.url is None:
            return
        check_no_secrets(self.url)
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise _wrong(
                "`url`", f"be an address such as http://localhost:8000/v1, got {self.url!r}"
            )
        if parts.username or parts.password:
            raise _wrong("`url`", "hold no name and no password; use `api_key_env`")
        if not self.model:
            raise _wrong("`model`", "be given with `url`: the name of the model on the server")
        if self.api_key_env and self.api_key_file:
            raise _wrong("`api_key_env` or `api_key_file`", "be left out: a server has one key")

    def _check_prompt(self) -> None:
        if CANDIDATE not in self.prompt:
            raise _wrong(
                "`prompt`",
                f"hold {CANDIDATE}, got {self.prompt!r:.60}; or name a `preset`: "
                f"{', '.join(PRESETS)}",
            )
        for place in dict.fromkeys(_PLACE.findall(self.prompt)):
            if place not in PLACES:
                raise _wrong("`prompt`", f"hold no {place}; {nearest(place, PLACES)}")
        if REFERENCE in self.prompt and (SOURCE in self.prompt or REFERENCES in self.prompt):
            raise _wrong("`prompt`", f"hold {REFERENCE} alone; with the source, write {REFERENCES}")
        if ASPECT in self.prompt and not self.aspect:
            raise _wrong("`aspect`", f"be given for a prompt with {ASPECT}")

    def _check_answers(self) -> None:
        lowest, *highest = self.scale or (0,)
        is_scale = len(highest) == 1 and 1 <= highest[0] - lowest < MOST_LABELS
        if not is_scale or lowest < 0:
            raise _wrong(
                "`scale`",
                f"be two whole numbers from 0 on, at most {MOST_LABELS - 1} apart, such as [1, 5], "
                f"got {list(self.scale)}",
            )
        if self.both_orders and (len(self.numbers) != 2 or REFERENCES not in self.prompt):
            raise _wrong("`both_orders`", f"have two `choices`, and {REFERENCES} in the `prompt`")

    def check_local(self) -> None:
        """Refuse what is for servers, where the model is here."""
        if self.value == "mean":
            raise _wrong(
                "`value`", "be expected or top with a `path`: expected is the mean of all draws"
            )
        plain = {field.name: field.default for field in fields(self)}
        for name in _OF_SERVERS:
            if getattr(self, name) != plain[name]:
                raise _wrong(f"`{name}`", "be left out with a `path`; it is for servers")

    @property
    def numbers(self) -> Mapping[str, float]:
        """The number of each answer, by its text."""
        if self.choices is not None:
            return self.choices
        lowest, highest = self.scale
        return {str(number): float(number) for number in range(lowest, highest + 1)}

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest score."""
        return min(self.numbers.values()), max(self.numbers.values())

    @property
    def sides(self) -> tuple[str, ...]:
        """What the prompt reads in addition to the candidate."""
        read = {"sources": (SOURCE,), "references": (REFERENCE, REFERENCES)}
        return tuple(
            side for side, places in read.items() if any(place in self.prompt for place in places)
        )

    @property
    def side(self) -> str:
        """Of which text, `source` or `reference`, there is a question about each; or empty."""
        if SOURCE in self.prompt:
            return "source"
        return "reference" if REFERENCE in self.prompt else ""

    @property
    def most_tokens(self) -> int:
        """Tokens that an answer may have."""
        return self.max_tokens or (1_024 if self.reasoning else 16)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of an answer."""
        answers: list[str | int] = [*self.numbers]
        kind = "string"
        if self.choices is None:
            answers, kind = [int(label) for label in self.numbers], "integer"
        properties: dict[str, Any] = {REASONING: {"type": "string"}} if self.reasoning else {}
        properties[ANSWER] = {"type": kind, "enum": answers}
        return {
            "type": "object",
            "properties": properties,
            "required": [*properties],
            "additionalProperties": False,
        }

    @property
    def how_to_answer(self) -> str:
        """The last lines of every question."""
        if self.choices is None:
            listed = f"a whole number from {self.scale[0]} to {self.scale[1]}"
        else:
            listed = "one of " + ", ".join(self.numbers)
        if self.form == "text":
            return f"Answer with {listed}, and nothing else."
        example: Any = next(iter(self.numbers))
        example = int(example) if self.choices is None else example
        reasons = f'"{REASONING}": "...", ' if self.reasoning else ""
        answer = f'{{{reasons}"{ANSWER}": {json.dumps(example)}}}'
        return f'Answer with JSON such as {answer}, where "{ANSWER}" is {listed}.'

    def filled(self, texts: Mapping[str, str]) -> str:
        """Return the question about some texts, each by its place.

        Places are filled once: what a text holds is never read as a place.

        >>> AskOptions(prompt="Good? {candidate}").filled({"{candidate}": "{source}"}).splitlines()
        ['Good? {source}', '', 'Answer with a whole number from 1 to 5, and nothing else.']
        """
        texts = {ASPECT: self.aspect or "", **texts}
        question = _PLACE.sub(lambda found: texts[found[0]], self.prompt)
        return f"{question}\n\n{self.how_to_answer}"

    def signature(self) -> str:
        """Name what changes a score, apart from the model."""
        asked = f"{self.system}\n{self.aspect}\n{self.prompt}\n{self.how_to_answer}"
        parts = [f"value:{self.value}", f"form:{self.form}"]
        parts.append(f"prompt:{blake2b(asked.encode(), digest_size=6).hexdigest()}")
        if self.choices is None:
            parts.append(f"scale:{'-'.join(map(str, self.scale))}")
        else:
            parts.append("choices:" + ",".join(f"{k}={v:g}" for k, v in self.choices.items()))
        if self.value == "mean":
            parts.append(f"samples:{self.samples}|temperature:{self.temperature:g}")
        plain = {field.name: field.default for field in fields(self)}
        for name in ("seed", "reasoning", "both_orders", "max_tokens", "top_logprobs"):
            if getattr(self, name) != plain[name]:
                parts.append(f"{name}:{getattr(self, name)}")
        if self.extra:
            parts.append(f"extra:{json.dumps(self.extra, sort_keys=True)}")
        return "|".join(parts)


def _without(table: _Table, given: _Table) -> dict[str, Any]:
    """Return what a preset says of an aspect, but for what is given; `aspect` is its name there."""
    return {key: value for key, value in table.items() if key == "aspect" or key not in given}


def _wrong(what: str, rule: str) -> ValueError:
    return ValueError(f"{what} of a question must {rule}")


PRESETS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("presets.toml").read_text("utf-8")
)
