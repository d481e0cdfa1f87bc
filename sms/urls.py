"""Keeps passwords, keys and tokens out of what is written and said.

A URL that a user gives ends up in `run.json`, in signatures and in messages, so one that holds a
secret is refused at once. Messages of libraries may repeat what they were given, so the secrets
that the environment holds are left out of those.
"""

from __future__ import annotations

import os
import re

SECRET_VARIABLES = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_KEY",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "RAY_AUTH_TOKEN",
)
"""Names in the environment."""

_secrets: set[str] = set()
_LENGTH = 8  # what is shorter may be part of a word, and no secret
_HAS_PORT = r"(?:(?<=http://)|(?<=https://)|(?<=hdfs://))"
# A password stands between a colon and the last @; it may hold slashes, as secret keys of AWS do.
# With http, https and hdfs, digits between a colon and a slash are a port instead.
_PASSWORD = re.compile(rf"(?<=://)(?!{_HAS_PORT}[^/@:\s]*:\d+/)[^/@\s]*:\S*@", re.IGNORECASE)
_PASSWORD_IN_OPTION = re.compile(r"(?i)(?<=%3A%2F%2F)[^/@&\s]*?%3A[^/@&\s]*%40")
_OPTION = re.compile(
    r"(?<=[?&])(sig|[\w-]*(?:key|secret|token|passw|credential|signature)[\w-]*)=[^&\s]*",
    re.IGNORECASE,
)


def is_url(path: str) -> bool:
    """Say whether `path` names a scheme rather than a local file."""
    return "://" in path


def keep_secret(secret: str) -> None:
    """Have `redacted` leave out a secret that is not in one of these variables."""
    _secrets.add(secret)


def redacted(text: str) -> str:
    """Put stars for the secrets in a text: those of URLs, those of the environment, kept ones."""
    text = _OPTION.sub(r"\1=***", _PASSWORD_IN_OPTION.sub("***@", _PASSWORD.sub("***@", text)))
    for secret in (*(os.environ.get(name, "") for name in SECRET_VARIABLES), *_secrets):
        if len(secret) >= _LENGTH:
            text = text.replace(secret, "***")
    return text


def check_no_secrets(text: str) -> None:
    """Refuse a text with a password, a key or a signature in a URL; the message leaves it out."""
    if "://" in text and (shown := redacted(text)) != text:
        raise ValueError(
            f"{shown} must not hold a password or key, which would end up in files and logs; set "
            "it in the environment (for S3 `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`) or in "
            "a profile"
        )
