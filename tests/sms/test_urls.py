"""Passwords and keys in URLs are neither accepted nor shown."""

from __future__ import annotations

import pytest

from sms.urls import check_no_secrets, redacted

# URL, what is shown of it
HIDDEN = [
    ("s3://AKIA:7/abcSECRET@bucket/x", "s3://***@bucket/x"),
    ("S3://AKIA:42/7/SECRET@bucket/x", "S3://***@bucket/x"),
    ("gs://key:1/SECRET@bucket/x", "gs://***@bucket/x"),
    ("s3://key:se@SECRET@bucket/x", "s3://***@bucket/x"),
    ("s3://key:se/@SECRET@bucket/x", "s3://***@bucket/x"),
    ("http://user:SECRET@host:80/x", "http://***@host:80/x"),
    ("http://user:SECRET:7/a@host/x", "http://***@host/x"),
    ("hdfs://user:7SECRET/a@host:8020/x", "hdfs://***@host:8020/x"),
    ("s3://b/x?secret_key=SECRET&region=eu-west-1", "s3://b/x?secret_key=***&region=eu-west-1"),
    ("https://h/x?X-Amz-Signature=SECRET&a=b", "https://h/x?X-Amz-Signature=***&a=b"),
    ("https://h/x?sig=SECRET&a=b", "https://h/x?sig=***&a=b"),
    ("gs://b/x?access_token=SECRET&a", "gs://b/x?access_token=***&a"),
    ("s3://b/x?proxy=http%3A%2F%2Fkey%3Aa%40SECRET%40host", "s3://b/x?proxy=http%3A%2F%2F***@host"),
]


SHOWN = [
    "http://host:5000/a@b",
    "HTTPS://host:443/a@b",
    "hdfs://user@namenode:8020/a@b",
    "s3://bucket/7:a@b",
    "s3://bucket/key=1/token=2/a%20b.parquet",
    "gs://anonymous@bucket/x",
    "https://tfhub.dev/google/use/4?tf-hub-format=compressed",
    "C:/Users/a:b@c/x?key=1",
    "s3://bucket/x?endpoint_override=http://127.0.0.1:5000/a@b",
]


@pytest.mark.parametrize(("url", "shown"), HIDDEN)
def test_secret_is_hidden_whole(url, shown):
    assert redacted(f"cannot open {url}, see a@b") == f"cannot open {shown}, see a@b"
    with pytest.raises(ValueError, match="must not hold a password or key") as caught:
        check_no_secrets(url)
    assert str(caught.value).startswith(f"{shown} must")


@pytest.mark.parametrize("url", SHOWN)
def test_what_is_no_secret_is_accepted(url):
    check_no_secrets(url)
