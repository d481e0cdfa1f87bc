"""Models and vectors from stores: fetched once, and again when they have changed."""

from pathlib import Path

import pytest

from cluster.fetching import fetch
from cluster.store import write_whole


def test_model_is_fetched_once_and_again_when_it_has_changed(proxy, bucket, tmp_path):
    url = f"s3://{bucket}/models/tiny"
    write_whole(f"{url}/config.json", b"{}")
    write_whole(f"{url}/deep/weights", b"12")

    def fetched():
        """Return the folder, and how many requests for objects that took."""
        proxy.weather.seen.clear()
        folder = Path(fetch(url))
        asked = [path for method, path, _ in proxy.weather.seen if method == "GET"]
        return folder, sum("list-type" not in path for path in asked)

    folder, n_read = fetched()
    assert (folder.name, n_read) == ("tiny", 2)
    assert (folder / "deep" / "weights").read_bytes() == b"12"
    assert fetched() == (folder, 0)
    write_whole(f"{url}/deep/weights", b"21")
    assert (fetched()[0] / "deep" / "weights").read_bytes() == b"21"
    assert not list((tmp_path / "cache").glob("*.partial"))


def test_nothing_there_to_fetch(proxy, bucket):
    with pytest.raises(ValueError, match=f"no file or folder at s3://{bucket}/nothing"):
        fetch(f"s3://{bucket}/nothing")


def test_file_that_changes_while_it_is_fetched_is_no_copy(proxy, bucket, tmp_path, monkeypatch):
    url = f"s3://{bucket}/vectors.txt"
    write_whole(url, b"12")

    def meddle(*_):
        write_whole(url, b"21")

    monkeypatch.setattr("cluster.fetching.shutil.copyfileobj", meddle)
    with pytest.raises(OSError, match="changed while it was fetched"):
        fetch(url)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


@pytest.mark.parametrize("text", ["/data/model", "sentence-transformers/all", "https://host/model"])
def test_what_is_in_no_store_stays_as_it_is(text):
    assert fetch(text) == text
