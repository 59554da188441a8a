"""The benchmark of fast paths cuts them out by their text: whoever changes that text has to change the cut."""

import importlib.util
from pathlib import Path

import pytest
from bench.fast_paths import PAYS_FOR
from bench.without import CUTS, WHOLE, Cut


@pytest.mark.parametrize("cut", [cut for cuts in CUTS.values() for cut in cuts], ids=lambda cut: cut.old[:40])
def test_a_cut_is_found_exactly_once(cut: Cut) -> None:
    found = importlib.util.find_spec(cut.module)
    assert found is not None
    assert found.origin is not None
    assert Path(found.origin).read_text().count(cut.old) == 1


def test_every_path_is_measured() -> None:
    assert PAYS_FOR.keys() == CUTS.keys() - {WHOLE}
