import pytest

from codehub.cli.failures import CommandError
from codehub.cli.tags import changed_tags


def test_tags_are_added_and_removed_whatever_their_case() -> None:
    assert changed_tags(["Papers", "done"], add=["new"], remove=["papers"]) == ["done", "new"]
    assert changed_tags([], add=["a", "b"], remove=[]) == ["a", "b"]


def test_removing_a_tag_it_does_not_have_is_told() -> None:
    with pytest.raises(CommandError, match="no tag gone"):
        changed_tags(["a"], add=[], remove=["gone"])
