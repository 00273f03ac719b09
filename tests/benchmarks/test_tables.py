"""The table of files is printed, whole."""

import pytest

from tests.benchmarks import tables

pytest.importorskip("pyarrow", reason="tables need pyarrow")


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    found = tables.main(["--rows", "3000"])
    assert set(found) == {"npy", "parquet", "feather", "csv", "parts"}
    assert all(len(reads) == 4 for reads in found.values())
    printed = capsys.readouterr().out
    assert "3,000 rows of 8 columns" in printed
    assert printed.count(" MiB") == 20
