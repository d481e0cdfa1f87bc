"""Models of transformers: probabilities, both stages, saving, wrong folders."""

import json
import shutil

import pytest
import torch

from reinforce.hugging_face import load_transformers
from reinforce.learning import load_summariser
from reinforce.summarisers import Limits
from tests.reinforce.conftest import batch_of, make_documents
from tests.reinforce.tiny_models import write_tiny_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module", params=["bart", "t5"])
def folder(request, tmp_path_factory):
    texts = [text for one in make_documents(30) for text in (one.source, one.references[0])]
    return write_tiny_model(tmp_path_factory.mktemp(request.param), request.param, texts)


@pytest.fixture
def summariser(folder):
    found = load_transformers(str(folder), Limits(source_words=60, summary_words=12))
    found.module.eval()
    return found


def test_log_probabilities_are_the_models_own_loss(summariser):
    batch = batch_of(summariser, 4)
    with torch.no_grad():
        (logs,) = summariser.module(**batch.inputs, targets=[batch.target])
        counted = summariser.is_counted(batch.target)
        labels = batch.target.masked_fill(~counted, -100)
        expected = summariser.module.model(**batch.inputs, labels=labels).loss
    assert float(-logs[counted].mean()) == pytest.approx(float(expected), rel=1e-5)


def test_documents_are_read_once_for_all_summaries_of_a_step(summariser):
    batch, calls = batch_of(summariser, 3), []
    encoder = summariser.module.model.get_encoder()
    torch.manual_seed(0)
    expected = [summariser.module.model.generate(**batch.inputs, max_new_tokens=13)[:, 1:]]
    sampling = {"do_sample": True, "top_k": 0, "top_p": 1.0, "max_new_tokens": 13, "num_beams": 1}
    for _ in range(2):
        expected.append(summariser.module.model.generate(**batch.inputs, **sampling)[:, 1:])
    torch.manual_seed(0)
    with encoder.register_forward_hook(lambda *_arguments: calls.append(1)):
        greedy, drawn = summariser.greedy_and_drawn(batch, 2)
    assert len(calls) == 1
    assert all(torch.equal(*pair) for pair in zip([greedy, *drawn], expected, strict=True))


def test_what_the_folder_says_of_generation_changes_nothing(folder, tmp_path):
    """Published checkpoints force first pieces, forbid repetition, ask for least lengths."""
    poisoned = shutil.copytree(folder, tmp_path / "poisoned")
    settings = {
        "forced_bos_token_id": 7, "no_repeat_ngram_size": 1, "min_length": 9, "temperature": 0.1,
        "suppress_tokens": list(range(8, 150)), "length_penalty": 3.0, "num_beams": 4,
        "repetition_penalty": 5.0, "early_stopping": True, "top_k": 2,
    }  # fmt: skip
    path = poisoned / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    written = []
    for place in (folder, poisoned):
        found = load_transformers(str(place), Limits(source_words=60, summary_words=12))
        found.module.eval()
        torch.manual_seed(0)
        batch = batch_of(found, 3)
        greedy, drawn = found.greedy_and_drawn(batch, 2)
        beams = found.search(batch, width=2)
        written.append([greedy, *drawn, beams])
    assert all(torch.equal(*pair) for pair in zip(*written, strict=True))


def test_saved_model_searches_the_same(summariser, tmp_path):
    summariser.save(tmp_path)
    again = load_summariser(tmp_path)
    again.module.eval()
    found = [
        each.texts(batch, each.search(batch, width=2))
        for each in (summariser, again)
        for batch in [batch_of(each, 3)]
    ]
    assert found[0] == found[1]


def test_no_model_rejected(tmp_path):
    with pytest.raises(ValueError, match="`--model` must name an encoder-decoder model"):
        load_transformers(str(tmp_path), Limits(source_words=400, summary_words=100))
