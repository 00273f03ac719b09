"""From rows of an experiment to its page: quartiles, tables, CSV, pictures; and the pages say what their CSV holds."""

import importlib
import math
import sys
import types
from pathlib import Path

import pytest

pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = sorted(path.stem for path in (ROOT / "docs" / "results").glob("*.csv"))


def rows() -> list[dict]:
    held = {"a": (4.0, 1.0, 3.0, 2.0, 5.0), "b": (2.0, 2.0, 2.0, 2.0, math.nan)}
    return [
        {"method": name, "size": 10, "seed": seed, "error": value}
        for name, values in held.items()
        for seed, value in enumerate(values)
    ]


def test_quartiles_by_hand_and_what_was_not_measured() -> None:
    import report

    first, second = report.quartiles(rows(), ["method", "size"], ["error"])
    assert first == {"method": "a", "size": 10, "runs": 5, "error_low": 2, "error": 3, "error_high": 4}
    assert (second["error"], second["runs"]) == (2, 5)
    assert math.isnan(report.quartiles([{"m": 1, "x": math.nan}], ["m"], ["x"])[0]["x"])
    assert report.cell(first, "error") == "3 (2, 4)"
    assert report.cell(second, "error") == "2"


def test_wins_are_counted_by_seed() -> None:
    import report

    assert report.wins(rows()[:9], "error", "a", "b") == (1, 4)  # of 4, 1, 3, 2 only 1 is below 2
    assert report.wins(rows()[:9], "error", "b", "a") == (2, 4)


def test_csv_says_how_it_was_made_and_is_read_back(tmp_path: Path) -> None:
    import report

    found = report.quartiles(rows(), ["method", "size"], ["error"])
    report.write(tmp_path / "mine.csv", found, ["first line", "second"])
    assert (tmp_path / "mine.csv").read_text("utf-8").startswith("# first line\n# second\nmethod,size,runs,error_low,")
    again, lines = report.read(tmp_path / "mine.csv")
    assert again == found
    assert lines == ["first line", "second"]
    told = report.about([{"seed": 0, "seconds": 4.0}, {"seed": 6, "seconds": 8.3}])
    assert told[1] == "Seeds 0 to 6; 12 processor seconds to build"
    assert "torch " in told[2]


def test_a_page_gets_its_tables_or_says_which_it_has_no_place_for() -> None:
    import report

    page = "a\n<!-- table: one -->\nold\n<!-- end -->\nb\n"
    assert report.fill(page, {"one": "| 1 |"}) == "a\n<!-- table: one -->\n\n| 1 |\n\n<!-- end -->\nb\n"
    with pytest.raises(ValueError, match="has no '<!-- table: two -->'"):
        report.fill(page, {"two": ""})


def test_intervals_and_numbers_of_runs_by_method_and_size() -> None:
    import report

    held = [{"method": "a", "size": n, "low": n / 3, "high": n / 2, "below": 2, "runs": 3} for n in (1, 20)]
    assert report.intervals(held, "low", "high").splitlines()[-1] == "| a | 0.333 to 0.5 | 6.67 to 10 |"
    assert report.counts(held, "below", "size").splitlines()[-1] == "| a | 2, 1 of 3 | 2, 20 of 3 |"


def test_what_an_experiment_wrote_is_put_into_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    import figures
    import report

    docs, out = tmp_path / "docs", tmp_path / "out"
    for folder in (docs / "results", docs / "images", out):
        folder.mkdir(parents=True)
    page = "<!-- table: one -->\n<!-- end -->\n<!-- table: about -->\n<!-- end -->\n"
    (docs / "results" / "mine.md").write_text(page, "utf-8")
    found = report.quartiles(rows(), ["method", "size"], ["error"])
    report.write(out / "mine_quartiles.csv", found, ["told"])
    for name in ("mine_points.png", "mine_points.svg", "mine_kept.jsonl"):
        (out / name).write_text(name, "utf-8")
    mine = types.ModuleType("mine")
    mine.tables = lambda held: {"one": report.table(held, "error")}
    mine.draw = lambda held: figures.panels(1)[0]
    monkeypatch.setitem(sys.modules, "mine", mine)
    monkeypatch.setattr(report, "DOCS", docs)
    report.main(["mine", "--out", str(out)])
    assert "| 10 | 3 (2, 4) | 2 |" in (docs / "results" / "mine.md").read_text("utf-8")
    pictures = ["mine.png", "mine.svg", "mine_points.png", "mine_points.svg"]
    assert sorted(path.name for path in (docs / "images").iterdir()) == pictures


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_tables_of_a_page_are_those_of_its_csv(name: str) -> None:
    for package in ("sklearn", "scipy", "tqdm"):
        pytest.importorskip(package)
    import report

    found, lines = report.read(ROOT / "docs" / "results" / f"{name}.csv")
    page = (ROOT / "docs" / "results" / f"{name}.md").read_text("utf-8")
    tables = {**importlib.import_module(name).tables(found), "about": report.told(lines)}
    assert report.fill(page, tables) == page
    for end in ("png", "svg"):
        assert f"images/{name}.{end}" in page
        assert 10_000 < (ROOT / "docs" / "images" / f"{name}.{end}").stat().st_size < 200_000


def test_names_of_lines_are_moved_apart_and_stay_in_order() -> None:
    import figures

    assert figures.spaced([0.0, 0.5, 1.0], 0.1) == [0.0, 0.5, 1.0]
    assert figures.spaced([0.3, 0.3, 0.3], 0.1) == pytest.approx([0.2, 0.3, 0.4])
    assert figures.spaced([0.0, 0.05, 0.9], 0.1) == pytest.approx([-0.025, 0.075, 0.9])
    assert figures.spaced([0.2, 1.0, 1.0], 0.1) == pytest.approx([0.2, 0.9, 1.0])


def test_a_picture_has_quartiles_sizes_and_names(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    import figures
    import report

    figure, (axis,) = figures.panels(1)
    held = [{**row, "size": size} for row in rows()[:5] for size in (10, 50)]
    found = report.quartiles(held, ["method", "size"], ["error"])
    figures.curves(axis, found, "error", figures.looks(["a"]))
    figures.sizes(axis, [10, 50])
    figures.name_lines(axis)
    band = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (2, 4)
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["10", "50"]
    assert [text.get_text() for text in axis.texts] == ["a"]
    figures.save(figure, tmp_path / "mine.png")
    assert {path.name for path in tmp_path.iterdir()} == {"mine.png", "mine.svg"}
    with pytest.raises(ValueError, match="got 8; expected 7 at most"):
        figures.looks("abcdefgh")
