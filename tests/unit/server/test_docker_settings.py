"""The Docker branch of the settings."""

import pytest

from codehub.server.settings.tree import load_settings
from codehub.server.settings.variables import SettingsError


def test_images_are_a_list_and_a_star_allows_any() -> None:
    assert load_settings({"DOCKER_IMAGES": " one:1 , two,"}).docker.allowed_images == ("one:1", "two")
    assert load_settings({"DOCKER_IMAGES": "*"}).docker.allowed_images == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [("512m", 512 * 1024**2), ("4G", 4 * 1024**3), ("2 GiB", 2 * 1024**3), ("33554432", 33554432)],
)
def test_memory_is_written_as_people_do(written: str, meant: int) -> None:
    assert load_settings({"DOCKER_LIMIT_MEMORY": written}).docker.memory == meant


@pytest.mark.parametrize("wrong", ["much", "4.5g", "1m", "-1g"])
def test_a_wrong_size_names_its_variable(wrong: str) -> None:
    with pytest.raises(SettingsError, match="DOCKER_LIMIT_MEMORY"):
        load_settings({"DOCKER_LIMIT_MEMORY": wrong})
