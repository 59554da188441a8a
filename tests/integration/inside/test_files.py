"""``scp``, ``sftp``, ``rsync`` and ``git`` move files through ``inside ssh`` byte for byte."""

import asyncio
import filecmp
import hashlib
import os
import subprocess
from pathlib import Path

import asyncssh
import pytest

from tests.support.openssh import HOST, OpenSsh
from tests.support.requirements import require_program

MEBIBYTES = int(os.environ.get("SCP_MEBIBYTES", "64"))  # try 1024 by hand


def call(*command: str, stdin: bytes = b"", environment: dict[str, str] | None = None) -> bytes:
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(600)
def test_scp_moves_a_large_file_there_and_back(openssh: OpenSsh, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    block = os.urandom(2**20)
    with source.open("wb") as file:
        for number in range(MEBIBYTES):
            file.write(hashlib.sha256(block + bytes([number % 256, number // 256])).digest() + block[32:])
    source.chmod(0o640)
    call(*openssh.command("scp", "-p", str(source), f"{HOST}:there"))
    assert (openssh.home / "there").stat().st_mode & 0o777 == 0o640
    assert filecmp.cmp(source, openssh.home / "there", shallow=False)
    call(*openssh.command("scp", f"{HOST}:there", str(back)))
    assert filecmp.cmp(source, back, shallow=False)


def test_sftp_does_what_editors_ask_of_it(openssh: OpenSsh, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("one")
    batch = [
        "pwd",
        "mkdir project",
        f"put {tmp_path}/notes project/notes.tmp",
        "chmod 600 project/notes.tmp",
        "rename project/notes.tmp project/notes",
        "ln -s notes project/link",
        "ls -la project",
        f"get project/link {tmp_path}/got",
        "rm project/link",
        f"put {tmp_path}/notes 'project/이름 with spaces'",
        "df",
    ]
    out = call(*openssh.command("sftp", "-b", "-", HOST), stdin="\n".join(batch).encode()).decode()
    assert f"Remote working directory: {openssh.home}" in out
    assert " link" in out
    assert (tmp_path / "got").read_text() == "one"
    assert (openssh.home / "project/notes").stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(openssh.home / "project")) == ["notes", "이름 with spaces"]


async def test_sftp_as_jetbrains_ides_use_it(openssh: OpenSsh, tmp_path: Path) -> None:
    """They upload with times and modes, replace files by renaming over them, and run commands beside it."""
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "project/src/main.py").write_text("print(1)")
    (tmp_path / "project/run.sh").write_text("true")
    (tmp_path / "project/run.sh").chmod(0o755)
    os.utime(tmp_path / "project/src/main.py", (1_600_000_000, 1_600_000_000))
    async with (
        asyncio.timeout(90),
        asyncssh.connect(
            HOST,
            proxy_command=[str(openssh.directory / "proxy")],
            known_hosts=str(openssh.directory / "known_hosts"),
            username="kim",
            client_keys=None,
            agent_path=None,
            config=None,
        ) as connection,
        connection.start_sftp_client() as sftp,
    ):

        async def mode_of(path: str) -> int | None:
            return (await sftp.lstat(path)).permissions

        assert await sftp.realpath(".") == str(openssh.home)
        await sftp.makedirs(".cache/JetBrains/RemoteDev", exist_ok=True)
        await sftp.put(str(tmp_path / "project"), "project", recurse=True, preserve=True)
        attributes = await sftp.stat("project/src/main.py")
        assert (attributes.size, attributes.mtime) == (8, 1_600_000_000)
        assert await mode_of("project/run.sh") == 0o100755
        async with sftp.open("project/src/main.py.tmp", "w") as file:
            await file.write("print(2)  # 이름")
        await sftp.posix_rename("project/src/main.py.tmp", "project/src/main.py")
        async with sftp.open("project/src/main.py", "a") as file:
            await file.write("\n")
        async with sftp.open("project/src/main.py", "r+") as file:
            await file.seek(6)
            await file.write("3")
        done = await connection.run("cat project/src/main.py", check=True)
        assert done.stdout == "print(3)  # 이름\n"
        (openssh.home / "project/src/link").symlink_to("main.py")
        assert await sftp.readlink("project/src/link") == "main.py"
        assert await mode_of("project/src/link") == 0o120777
        assert (await sftp.statvfs(".")).bavail > 0
        names = {str(entry.filename) for entry in await sftp.readdir("project/src")}
        assert names - {".", ".."} == {"main.py", "link"}
        await sftp.rmtree("project")
        with pytest.raises(asyncssh.SFTPNoSuchFile):
            await sftp.stat("project")


def test_rsync_copies_a_tree_and_then_only_what_changed(openssh: OpenSsh, tmp_path: Path) -> None:
    require_program("rsync", package="rsync")
    tree = tmp_path / "tree"
    (tree / "deep/er").mkdir(parents=True)
    for number in range(50):
        (tree / f"deep/er/{number}").write_bytes(os.urandom(3000 * number))
    (tree / "link").symlink_to("deep/er/1")
    shell = " ".join(openssh.command("ssh"))
    command = ("rsync", "-a", "--delete", "--out-format=%n", "-e", shell, f"{tree}/", f"{HOST}:tree/")
    assert b"deep/er/49" in call(*command)
    (tree / "deep/er/7").write_text("changed")
    (tree / "deep/er/8").unlink()
    changed = call(*command).decode().split()
    assert "deep/er/7" in changed
    assert "deep/er/49" not in changed
    compared = filecmp.dircmp(tree / "deep/er", openssh.home / "tree/deep/er")
    assert [compared.diff_files, compared.left_only, compared.right_only] == [[], [], []]
    assert (openssh.home / "tree/link").readlink() == Path("deep/er/1")


def test_git_pushes_and_clones(openssh: OpenSsh, tmp_path: Path) -> None:
    require_program("git", package="git")
    environment = {
        **openssh.environment,
        "GIT_SSH_COMMAND": " ".join(openssh.command("ssh")),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    author = ("-c", "user.name=Kim", "-c", "user.email=kim@example.org")
    work, again = str(tmp_path / "work"), str(tmp_path / "again")
    assert openssh.run("git init -q --bare thesis.git").returncode == 0
    call("git", "init", "-q", "-b", "main", work)
    (tmp_path / "work/chapter").write_bytes(os.urandom(300_000))
    call("git", "-C", work, "add", ".")
    call("git", "-C", work, *author, "commit", "-q", "-m", "chapter one")
    call("git", "-C", work, "push", "-q", f"{HOST}:thesis.git", "main", environment=environment)
    call("git", "clone", "-q", "-b", "main", f"{HOST}:thesis.git", again, environment=environment)
    assert filecmp.cmp(tmp_path / "work/chapter", tmp_path / "again/chapter", shallow=False)
