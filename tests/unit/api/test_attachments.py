"""What a directory's tar is called, whatever the directory is."""

import pytest

from codehub.api.inside.ranges import tar_attachment


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "attachment; filename=\"home.tar\"; filename*=UTF-8''home.tar"),
        ("a/project/", "attachment; filename=\"project.tar\"; filename*=UTF-8''project.tar"),
        ("..", "attachment; filename=\"home.tar\"; filename*=UTF-8''home.tar"),
        ("한국", "attachment; filename=\"files.tar\"; filename*=UTF-8''%ED%95%9C%EA%B5%AD.tar"),
        ('x"; y\r\nSet-Cookie: z', "attachment; filename=\"x_y_Set-Cookie_z.tar\"; "
         "filename*=UTF-8''x%22%3B%20y%0D%0ASet-Cookie%3A%20z.tar"),
    ],
)  # fmt: skip
def test_a_tar_is_named_after_its_directory(path: str, expected: str) -> None:
    assert tar_attachment(path) == expected
