"""The splits of a step on one and two ranks are printed."""

import pytest

from tests.benchmarks import scale_out


@pytest.mark.slow
@pytest.mark.distributed
def test_both_steps_are_split(capsys: pytest.CaptureFixture) -> None:
    found = scale_out.main(["--quick"])
    assert [(split.step, split.ranks) for split in found] == [
        ("transport", 1), ("online", 1), ("transport", 2), ("online", 2)
    ]  # fmt: skip
    assert all(0 < split.waiting < split.seconds and split.messages >= 1 for split in found)
    assert "On paper: 8 GPUs" in capsys.readouterr().out
