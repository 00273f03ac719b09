"""Every example has a test."""

from pathlib import Path

FOLDER = Path(__file__).parent
EXAMPLES = FOLDER.parents[1] / "examples"


def test_every_example_is_tested() -> None:
    tests = "\n".join(path.read_text("utf-8") for path in FOLDER.glob("test_*.py"))
    names = [path.stem for path in EXAMPLES.rglob("*.py") if path.stem != "__init__"]
    assert not [name for name in names if name not in tests]
