"""Scorers on the hub, against a stand-in of it: what is fetched, what is refused, what is sent."""

import json

import numpy as np
import pytest

from reffree.neural.building import build
from reffree.scorers import hub as our_hub
from reffree.scorers.folder import save_scorer
from reffree.scorers.hub import HubName, fetch_scorer, pinned_name, upload_scorer
from reffree.scorers.naming import PACKAGED, split_head
from reffree.scorers.scorer import load_scorer
from tests.hub import READER
from tests.reffree.conftest import model_config
from tests.reffree.tiny_bert import make_groups, write_tiny_bert

# of the library where it sends large files by git LFS
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
NEWS = (PACKAGED / "news" / "scorer.json").read_bytes()
SOURCES = [group[0].source for group in make_groups(9)]
CANDIDATES = [group[0].candidate for group in make_groups(9)]


def refused(name):
    """Return the one line that says why a scorer is not fetched."""
    with pytest.raises(ValueError, match=r".") as caught:
        fetch_scorer(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def bert(tmp_path):
    """The folder of a scorer with weights, a tokeniser and the settings of a transformer."""
    config = model_config(
        encoder=f"hf:{write_tiny_bert(tmp_path / 'bert')}", max_pieces=16, n_hidden=8
    )
    built = build(config, seed=3)
    save_scorer(tmp_path / "scorer", built, loss="bce", trained_on={}, held_out={}, versions={})
    return tmp_path / "scorer"


def files_in(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


# Names


def test_names():
    assert HubName.read("hf:me/news") == HubName("me/news")
    assert HubName.read("hf:me/news@refs/pr/1") == HubName("me/news", "refs/pr/1")
    assert str(HubName("me/a.b-c_d", "v1.0")) == "hf:me/a.b-c_d@v1.0"
    assert split_head("hf:me/news@v1.fluency") == ("hf:me/news@v1", "fluency")
    for wrong in ("hf:news", "hf:me/", "hf:/me/x", "hf:me/x/y", "hf:me/x@", "hf:../x", "hf://me/x"):
        with pytest.raises(ValueError, match=r"must be written hf:OWNER/NAME or hf:OWNER/NAME@REV"):
            HubName.read(wrong)


# Fetching


def test_fetched_scorer_scores_as_the_folder_bit_by_bit(bert, hub):
    commit = hub.add("me/tiny", files_in(bert))
    expected = load_scorer(bert).score(SOURCES, CANDIDATES).scores
    np.testing.assert_array_equal(
        load_scorer("hf:me/tiny").score(SOURCES, CANDIDATES).scores, expected
    )
    assert np.ptp(expected) > 0
    assert pinned_name("hf:me/tiny") == f"hf:me/tiny@{commit}"


def test_only_the_files_of_a_scorer_are_asked_for(hub):
    others = {
        "model.pkl": b"\x80",
        "modeling.py": b"boom",
        "pytorch_model.bin": b"\x80",
        "a/b": b"",
    }
    hub.add("me/news", {"scorer.json": NEWS, **others})
    folder = fetch_scorer("hf:me/news")
    assert [file.name for file in folder.rglob("*")] == ["scorer.json"]
    assert {line.rpartition("/")[2] for line in hub.asked if "/resolve/" in line} == {"scorer.json"}


def test_a_commit_in_the_cache_is_not_asked_for_again(hub):
    first = hub.add("me/news", {"scorer.json": NEWS})
    name = pinned_name("hf:me/news")
    second = hub.add("me/news", {"scorer.json": NEWS, "README.md": b"more"})
    hub.asked.clear()
    assert fetch_scorer(name).name == first
    assert pinned_name("hf:me/news", f"reffree|v:1|hf:me/news@{first}") == name
    assert hub.asked == []
    assert pinned_name("hf:me/news") == f"hf:me/news@{second}"
    assert pinned_name("hf:me/news", f"reffree|v:1|hf:you/news@{first}") != name


def test_branches_and_tags_are_pinned_to_their_commits(hub):
    old = hub.add("me/news", {"scorer.json": NEWS})
    hub.repositories["me/news"].refs["v1.0"] = old
    hub.add("me/news", {"scorer.json": NEWS, "README.md": b"more"})
    assert pinned_name("hf:me/news@v1.0") == f"hf:me/news@{old}"
    assert pinned_name(f"hf:me/news@{old}") == f"hf:me/news@{old}"


def test_offline_with_a_warm_and_with_a_cold_cache(hub, offline):
    commit = hub.add("me/news", {"scorer.json": NEWS})
    fetch_scorer("hf:me/news")
    offline()
    assert pinned_name("hf:me/news") == f"hf:me/news@{commit}"
    assert pinned_name(f"hf:me/news@{commit}") == f"hf:me/news@{commit}"
    for cold in ("hf:me/other", "hf:me/news@v1"):
        message = refused(cold)
        assert "the hub cannot be reached (HF_HUB_OFFLINE is set); where it can, run `hf" in message


def test_hub_that_is_down_is_as_being_offline(hub, monkeypatch):
    commit = hub.add("me/news", {"scorer.json": NEWS})
    fetch_scorer("hf:me/news")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert fetch_scorer("hf:me/news").name == commit
    assert "cannot be reached (ConnectError)" in refused("hf:me/other")


def test_half_a_snapshot_in_the_cache_is_fetched_anew(bert, hub):
    hub.add("me/tiny", files_in(bert))
    name = pinned_name("hf:me/tiny")
    (fetch_scorer(name) / "weights.safetensors").unlink()
    assert (fetch_scorer(name) / "weights.safetensors").is_file()


# What is refused


def test_missing_private_and_gated_repositories_and_revisions(hub, monkeypatch):
    for name, how in {
        "mine": {"is_private": True},
        "gated": {"is_gated": True},
        "open": {},
    }.items():
        hub.add(f"me/{name}", {"scorer.json": NEWS}, **how)
    assert fetch_scorer("hf:me/mine")
    assert "`hf:me/open` has no revision `v9`" in refused("hf:me/open@v9")
    monkeypatch.setenv("HF_TOKEN", READER)
    for name in ("hf:me/mine@main", "hf:me/none"):
        assert f"`{name}` is not on the hub, or is private; check the name, or log" in refused(name)
    assert f"accept them at {hub.url}/me/gated" in refused("hf:me/gated")


def test_repository_of_something_else_and_files_too_large_are_not_fetched(hub):
    hub.add("me/bert", {"config.json": b"{}", "pytorch_model.bin": b"\x80"})
    assert "must hold a scorer that `assay export` uploaded, got no scorer.json" in refused(
        "hf:me/bert"
    )
    hub.add("me/large", {"scorer.json": NEWS, "weights.safetensors": b"0"})
    hub.sizes["weights.safetensors"] = our_hub.MOST_BYTES["weights.safetensors"] + 1
    assert "must have at most 8,589,934,592 bytes, got 8,589,934,593 bytes" in refused(
        "hf:me/large"
    )
    assert not [line for line in hub.asked if "/resolve/" in line]


def changed(**parts):
    said = json.loads(NEWS)
    model = said["model"]
    if "features" in parts:
        model["features"] |= parts.pop("features")
    return json.dumps({**said, "model": {**model, **parts.pop("model", {})}, **parts}).encode()


WITH = {**dict.fromkeys(("head", "scorer"), "fc"), "max_pieces": 9, "is_calibrated": False}
ELSEWHERE = {
    "a-model": changed(features={"names": ["density", "likelihood@/etc"]}),
    "a-server": changed(
        features={
            "names": ["density", "ask@spy"],
            "models": {"spy": {"url": "http://127.0.0.1:9/v1", "model": "m", "preset": "yes-no"}},
        }
    ),
    "a-scorer": changed(features={"names": ["density", "reffree@hf:you/other"]}),
    "an-encoder": changed(model=WITH | {"scorer": "sentence", "encoder": "hf:you/other"}),
    "a-tensorflow-graph": changed(model=WITH | {"scorer": "word", "encoder": "use:https://x.y/z"}),
    "a-file": changed(hashes={"../../secret": "0"}),
}


@pytest.mark.parametrize("said", ELSEWHERE.values(), ids=ELSEWHERE)
def test_scorer_that_leads_elsewhere_is_refused(said, hub):
    hub.add("me/evil", {"scorer.json": said, "weights.safetensors": b"0"})
    message = refused("hf:me/evil")
    assert (
        "which it does not hold, so it can neither be exported nor loaded from the hub" in message
    )
    assert not [line for line in hub.asked if "you/other" in line]


def test_transformer_cannot_name_code(bert, hub, monkeypatch):
    said = json.loads((bert / "transformer.json").read_text())
    expected = load_scorer(bert).score(SOURCES, CANDIDATES).scores
    said |= {
        "auto_map": {"AutoModel": "you/other--modeling.Evil"},
        "attn_implementation": "you/kernel",
        "_attn_implementation": "you/kernel",
        "_attn_implementation_internal": "you/kernel",
    }
    text = json.dumps(said).encode()
    (bert / "transformer.json").write_bytes(text)
    settings = json.loads((bert / "scorer.json").read_text())
    from reffree.scorers.folder import hash_of

    settings["hashes"]["transformer.json"] = hash_of(bert / "transformer.json")
    (bert / "scorer.json").write_text(json.dumps(settings))
    hub.add("me/evil", files_in(bert))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked whether to run code"))
    scores = load_scorer("hf:me/evil").score(SOURCES, CANDIDATES).scores
    np.testing.assert_array_equal(scores, expected)
    assert not [line for line in hub.asked if " /you/" in line or "/models/you/" in line]


# Uploading


def test_upload_is_one_commit_of_the_files_of_a_folder(bert, hub):
    name = upload_scorer(bert, "hf:me/tiny", is_private=True)
    repository = hub.repositories["me/tiny"]
    assert repository.is_private
    assert len(repository.commits) == 2  # the first is the hub's own
    assert name == HubName("me/tiny", repository.refs["main"])
    files = hub.files("me/tiny")
    del files[".gitattributes"]
    assert files == files_in(bert)
    assert hub.lfs  # the weights are large enough for git LFS
    assert load_scorer(str(name)).signature == load_scorer(bert).signature


def test_next_upload_leaves_no_file_of_the_one_before(bert, hub, tmp_path):
    upload_scorer(bert, "hf:me/tiny", is_private=False)
    smaller = tmp_path / "smaller"
    smaller.mkdir()
    (smaller / "scorer.json").write_bytes(NEWS)
    name = upload_scorer(smaller, "hf:me/tiny", is_private=False)
    assert sorted(hub.files("me/tiny")) == [".gitattributes", "scorer.json"]
    assert load_scorer(str(name)).signature == load_scorer("news").signature


def test_upload_that_fails_changes_nothing(bert, hub):
    first = upload_scorer(bert, "hf:me/tiny", is_private=False)
    hub.refuses_commits = True
    (bert / "README.md").write_text("more")
    with pytest.raises(ValueError, match=r"nothing was uploaded to `hf:me/tiny`: .*no space left"):
        upload_scorer(bert, "hf:me/tiny", is_private=False)
    assert hub.repositories["me/tiny"].refs["main"] == first.revision


def test_upload_needs_a_token_that_may_write(bert, hub, monkeypatch, offline):
    def why(name="hf:me/tiny"):
        with pytest.raises(ValueError, match=r".") as caught:
            upload_scorer(bert, name, is_private=False)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "hf:you/tiny`: the token may not write there; check OWNER" in why("hf:you/tiny")
    assert "without a revision, got `hf:me/tiny@v1`" in why("hf:me/tiny@v1")
    monkeypatch.setenv("HF_TOKEN", READER)
    assert "the token may not write there" in why()
    monkeypatch.setenv("HF_TOKEN", "hf_nobody_knows_this_one")
    message = why()
    assert "the hub does not know the token; log in again with `hf auth login`" in message
    assert "hf_nobody" not in message
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/no/such/file")
    assert "needs an account on the hub: log in with `hf auth login`, or set HF_TOKEN" in why()
    offline()
    assert "needs the hub, but HF_HUB_OFFLINE is set; unset it" in why()
    assert hub.repositories == {}


def test_upload_replaces_nothing_but_a_scorer(bert, hub):
    hub.add("me/model", {".gitattributes": b"", "README.md": b"", "pytorch_model.bin": b"\x80"})
    hub.add("me/open", {".gitattributes": b"", "README.md": b"# Hub's own"})
    with pytest.raises(
        ValueError, match=r"must be new, empty or a scorer, but holds pytorch_model"
    ):
        upload_scorer(bert, "hf:me/model", is_private=False)
    with pytest.raises(
        ValueError, match=r"`hf:me/open` exists and is public; leave out `--private`"
    ):
        upload_scorer(bert, "hf:me/open", is_private=True)
    assert [len(one.commits) for one in hub.repositories.values()] == [1, 1]
    assert upload_scorer(bert, "hf:me/open", is_private=False).revision


def test_repository_changed_meanwhile_is_not_overwritten(bert, hub, monkeypatch):
    upload_scorer(bert, "hf:me/tiny", is_private=False)
    looked = our_hub._check_place

    def another_commit(*args, **kwargs):
        looked(*args, **kwargs)
        hub.add("me/tiny", {"scorer.json": b"of somebody else"})

    monkeypatch.setattr(our_hub, "_check_place", another_commit)
    with pytest.raises(ValueError, match="the repository was changed meanwhile; run the command"):
        upload_scorer(bert, "hf:me/tiny", is_private=False)
    assert hub.files("me/tiny")["scorer.json"] == b"of somebody else"
