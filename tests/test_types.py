"""What a type checker knows of the README's first example: no value in it is Any."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
UNTYPED = {"loss(points, data).backward()", "optimizer.step()"}  # by torch itself


def examples() -> str:
    """The first two blocks of Python in the README, one script."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[:2])


def values(script: str) -> list[str]:
    """Everything in a script that is computed or looked up, but for what it calls."""
    nodes = list(ast.walk(ast.parse(script)))
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    found = {ast.unparse(node) for node in nodes if isinstance(node, (ast.Call, ast.Attribute, ast.Name))}
    return sorted(found - called - UNTYPED)


@pytest.mark.slow
def test_the_first_example_is_typed(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    script, shown = examples(), values(examples())
    path = tmp_path / "example.py"
    path.write_text("\n".join([script, *(f"reveal_type({value})" for value in shown)]), "utf-8")
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    said = api.run([*settings, "--no-pretty", str(path)])[0]
    revealed = re.findall(r'note: Revealed type is "(.*)"', said)
    assert len(revealed) == len(shown), said
    unknown = [f"{value}: {kind}" for value, kind in zip(shown, revealed, strict=True) if re.search(r"\bAny\b", kind)]
    assert not unknown
