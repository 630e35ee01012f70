"""The pre-commit hook and the workflow call commands that exist, on files that are there."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent


def test_the_hook_checks_pages_and_scripts() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "selfattn check"
    for path in ("docs/average.md", "snippets/average.md"):
        assert (ROOT / path).exists()
        assert re.match(hook["files"], path)
    assert not re.match(hook["files"], "README.md")


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_workflow_tests_every_python(version: str) -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    job = workflow["jobs"]["test"]
    assert version in job["strategy"]["matrix"]["python"]
    commands = [step.get("run", "") for step in job["steps"]]
    assert ".ci/run" in commands
    assert any(command.endswith("selfattn data") for command in commands)
