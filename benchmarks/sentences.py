"""Which splitter finds the sentences of text as summarisers write it?

The gold: CNN/DailyMail highlights, whose line ends are sentence ends. Kept are documents of two
lines and more, all of which end in `.`, `!` or `?`, perhaps before quotation marks and brackets
(some lines hold two sentences, so that nothing reaches 1). Each document is written in four forms
and its lines joined by a space:

- as written;
- lower-cased;
- Treebank tokens: NLTK's `TreebankWordTokenizer`, line by line, its tokens joined by spaces;
- the same, lower-cased, `` and '' written as ` and '.

A treebank in the CoNLL-U format (`--treebank`) has its sentences in lines `# text = `, joined by a
space within each `# newdoc`. Counted are boundaries inside the text, by the characters before them
that are no white space; the figure is F1 over all of them. The splitter's rules were made with the
first 400 documents and the development part of UD English-GUM in view; the rest is held out.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import importlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path

import polars as pl
import pyarrow as pa
import sentencex
from corpora import data_file
from nltk.tokenize import TreebankWordTokenizer
from timing import in_one_line, machine, say

from sms.text import split_sentences
from sms.text.languages import LANGUAGES

N_DEVELOPMENT = 400
_FINAL = re.compile(r"[.!?][\"')\]’”]*$")
_TOKENISER = TreebankWordTokenizer()

Document = list[str]
Splitter = Callable[[str], Sequence[str]]


def treebank(line: str) -> str:
    return " ".join(_TOKENISER.tokenize(line))


def released(line: str) -> str:
    return treebank(line).replace("``", "`").replace("''", "'").lower()


FORMS: dict[str, Callable[[str], str]] = {
    "as written": str,
    "lower-cased": str.lower,
    "Treebank tokens": treebank,
    "the same, lower-cased, ` and '": released,
}


def contenders() -> Iterator[tuple[str, Splitter]]:
    """Name the splitters, ours first, then those that are installed."""
    yield "assay", split_sentences
    yield "sentencex", lambda text: sentencex.segment("en", text)
    if find_spec("nupunkt"):
        yield "nupunkt", importlib.import_module("nupunkt").sentences
    if find_spec("blingfire"):
        blingfire = importlib.import_module("blingfire")
        yield "blingfire", lambda text: blingfire.text_to_sentences(text).split("\n")
    if find_spec("syntok"):
        segmenter = importlib.import_module("syntok.segmenter")
        yield (
            "syntok",
            lambda text: [
                "".join(token.spacing + token.value for token in sentence)
                for paragraph in segmenter.process(text)
                for sentence in paragraph
            ],
        )
    if find_spec("pysbd"):
        yield (
            "pysbd",
            importlib.import_module("pysbd").Segmenter(language="en", clean=False).segment,
        )


def highlights(path: Path) -> list[Document]:
    documents = [
        [" ".join(line.split()) for line in text.split("\n") if line.strip()]
        for text in pl.read_parquet(path)["reference"]
    ]
    return [d for d in documents if len(d) > 1 and all(map(_FINAL.search, d))]


def treebank_documents(path: Path) -> list[Document]:
    documents: list[Document] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# newdoc"):
            documents.append([])
        elif line.startswith("# text = "):
            documents[-1].append(line.removeprefix("# text = "))
    return documents


def boundaries(pieces: Sequence[str]) -> set[int]:
    """Count the characters before each boundary inside a text, white space left out."""
    ends = list(accumulate(sum(map(len, piece.split())) for piece in pieces))
    return set(ends[:-1]) - {0, ends[-1]}


def f1(splitter: Splitter, documents: Sequence[Document]) -> float:
    n_found = n_gold = n_both = 0
    for document in documents:
        found, gold = boundaries(splitter(" ".join(document))), boundaries(document)
        n_found, n_gold, n_both = (
            n_found + len(found),
            n_gold + len(gold),
            n_both + len(found & gold),
        )
    return 2 * n_both / (n_found + n_gold)


def megabytes_a_second(name: str, splitter: Splitter, documents: Sequence[Document]) -> float:
    """Time ours by the batch, as a run cuts texts, and the others text by text."""
    texts = [" ".join(document) for document in documents]
    splitter(texts[0])
    cut_batch, batch = LANGUAGES["en"].cutter(), pa.array(texts)
    cut_batch(batch)  # compiles, and asks about each word before a mark once
    started = time.process_time()
    if name == "assay":
        cut_batch(batch)
    else:
        for text in texts:
            splitter(text)
    return sum(map(len, texts)) / 1e6 / (time.process_time() - started)


def compare(sets: dict[str, list[Document]]) -> None:
    first = next(iter(sets.values()))
    say(f"{'':10s}" + "".join(f"{name:>34s}" for name in sets) + f"{'MB/s':>8s}")
    for name, splitter in contenders():
        row = "".join(f"{f1(splitter, documents):34.4f}" for documents in sets.values())
        say(f"{name:10s}{row}{megabytes_a_second(name, splitter, first):8.1f}")


def count_sentences() -> None:
    """Count the sentences of the evaluation data's texts, and the texts that change."""
    say("\ntexts: sentences by sentencex, by assay; texts of one sentence; texts cut otherwise")
    for file, column in (
        ("summeval.parquet", "candidate"),
        ("summeval.parquet", "references"),
        ("summeval.parquet", "source"),
        ("primer_news.parquet", "candidate"),
        ("primer_news.parquet", "source"),
        ("cnndm_pairs.parquet", "reference"),
    ):
        path = data_file(file)
        if path is None:
            continue
        frame = pl.read_parquet(path)
        if column != "candidate" and file != "cnndm_pairs.parquet":
            frame = frame.unique("document_id")
        texts = frame[column].explode() if frame[column].dtype == pl.List else frame[column]
        pairs = [
            [
                [piece for piece in splitter(text) if piece.strip()]
                for splitter in (lambda text: sentencex.segment("en", text), split_sentences)
            ]
            for text in texts.drop_nulls()
        ]
        before, after = ([len(pair[k]) for pair in pairs] for k in (0, 1))
        n_changed = sum(boundaries(one) != boundaries(other) for one, other in pairs)
        say(
            f"{file} {column}, {len(pairs):,}: {sum(before):,}, {sum(after):,}; "
            f"{before.count(1)}, {after.count(1)}; {n_changed:,}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--treebank", type=Path, nargs="*", default=[], help="CoNLL-U files with `# newdoc`."
    )
    options = parser.parse_args()
    path = data_file("cnndm_pairs.parquet")
    if path is not None:
        kept = highlights(path)
        for part, documents in (
            ("development", kept[:N_DEVELOPMENT]),
            ("held out", kept[N_DEVELOPMENT:]),
        ):
            say(f"highlights, {part}: {len(documents):,} documents")
            compare(
                {
                    name: [[form(line) for line in document] for document in documents]
                    for name, form in FORMS.items()
                }
            )
    sets = {path.stem: treebank_documents(path) for path in options.treebank}
    if sets:
        compare(sets)
    count_sentences()
    say(in_one_line(machine("sentencex", "nltk", "polars")))


if __name__ == "__main__":
    main()
