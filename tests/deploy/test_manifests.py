"""The files in `deploy/` and the commands in `docs/cluster.md` fit the schemas and the code."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from importlib import metadata
from pathlib import Path

import jsonschema
import pytest
import yaml
from dockerfile_parse import DockerfileParser

from pipelines.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCUMENT = ROOT / "docs" / "cluster.md"
SCHEMA = json.loads((Path(__file__).parent / "rayjob_schema.json").read_text("utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def read(name):
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))


def commands_of_document() -> list[str]:
    """Return the commands of the document, with continued lines joined."""
    blocks = re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    return re.sub(r"\\\n\s*", "", "".join(blocks)).splitlines()


def assay_commands() -> list[list[str]]:
    """Return every `assay ...` of the document and the manifest, as arguments."""
    texts = [*commands_of_document(), read("rayjob.yaml")["spec"]["entrypoint"]]
    found = []
    for text in texts:
        words = shlex.split(text)
        if len(words) > 1 and words[-1].startswith("assay "):  # `ray exec FILE 'assay ...'`
            words = shlex.split(words[-1])
        if "assay" in words:
            found.append(words[words.index("assay") + 1 :])
    return found


@pytest.mark.parametrize("arguments", assay_commands(), ids=" ".join)
def test_commands_have_options_that_there_are(arguments):
    command = app.commands[arguments[0]]
    with command.make_context(arguments[0], arguments[1:]) as ctx:
        assert (ctx.params.get("out") or ctx.params["dir"]).startswith("s3://")


def test_document_has_every_way_of_running():
    said = "\n".join(commands_of_document())
    for part in (
        "ray job submit ",
        "ray up deploy/ray-up.yaml",
        "kubectl apply -f deploy/rayjob.yaml",
        "docker build -f deploy/Dockerfile",
        "assay status ",
        "--address auto",
    ):
        assert part in said


def test_files_named_in_the_document_are_there():
    names = set(re.findall(r"deploy/[\w.-]+", DOCUMENT.read_text("utf-8")))
    assert {ROOT / name for name in names} == {path for path in DEPLOY.iterdir() if path.is_file()}


def test_metrics_named_in_the_document_are_those_of_the_code():
    code = (ROOT / "cluster" / "ray_metrics.py").read_text("utf-8")
    named = set(re.findall(r"`(assay_\w+)`", DOCUMENT.read_text("utf-8")))
    assert len(named) > 3
    assert all(f'"{name}"' in code for name in named)


def test_rayjob_fits_the_schema():
    jsonschema.Draft7Validator(SCHEMA).validate(read("rayjob.yaml"))


def head(job):
    return job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]


def test_ray_up_fits_the_schema_of_ray():
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(read("ray-up.yaml"))
    validate_config(prepared)
    assert prepared["head_node_type"] in prepared["available_node_types"]
    with pytest.raises(jsonschema.ValidationError):
        validate_config({**prepared, "no_such_key": 1})


def test_every_cluster_asks_for_a_token():
    assert read("rayjob.yaml")["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    assert "--env RAY_AUTH_MODE=token" in read("ray-up.yaml")["docker"]["run_options"]
    assert DockerfileParser(str(DEPLOY)).envs["RAY_AUTH_MODE"] == "token"
    starts = read("ray-up.yaml")["head_start_ray_commands"]
    assert any("--dashboard-host=127.0.0.1" in line for line in starts)


def test_one_image_and_one_version_of_ray():
    pinned = re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.M)[1]
    job, up = read("rayjob.yaml")["spec"]["rayClusterSpec"], read("ray-up.yaml")
    assert job["rayVersion"] == pinned == metadata.version("ray")
    assert f"rayproject/ray:{pinned}-py" in (DEPLOY / "Dockerfile").read_text("utf-8")
    images = {head({"spec": {"rayClusterSpec": job}})["image"], up["docker"]["image"]}
    images |= {g["template"]["spec"]["containers"][0]["image"] for g in job["workerGroupSpecs"]}
    assert images == {f"registry.example.com/assay:{PROJECT['project']['version']}"}


def test_dockerfile_copies_every_package_and_nothing_that_is_missing():
    copied = []
    for instruction in DockerfileParser(str(DEPLOY)).structure:
        if instruction["instruction"] == "COPY":
            words = [w for w in instruction["value"].split() if not w.startswith("--")]
            copied += words[:-1]
    assert all((ROOT / name).exists() for name in copied)
    packages = {name.split(".")[0] for name in PROJECT["tool"]["setuptools"]["packages"]}
    assert packages <= set(copied)
    assert {"pyproject.toml", "constraints.txt"} <= set(copied)


def test_dockerfile_installs_an_extra_that_there_is():
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    (extra,) = re.findall(r"/assay\[(\w+)\]", text)
    assert any(
        "ray[default]" in name for name in PROJECT["project"]["optional-dependencies"][extra]
    )
    known = {"ARG", "FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "COMMENT"}
    assert {part["instruction"] for part in DockerfileParser(str(DEPLOY)).structure} <= known
