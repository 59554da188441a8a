#!/usr/bin/env python3
"""Restore a home from a directory of archives, without CodeHub.

    python3 restore_home.py ARCHIVES KEY TARGET

ARCHIVES is the directory of the store, or a copy of the bucket; KEY is the archive_key of a workspace, ending in
home.tar.zst (format 1) or home.manifest (format 2); TARGET must not exist. Needs Python 3.10, and the programs zstd and
tar. As root, files get their owners back. Unpack only archives you trust: the checks of CodeHub are not made here.
"""

import hashlib
import pathlib
import struct
import subprocess
import sys


def unzstd(frame):
    return subprocess.run(["zstd", "-dcq"], input=frame, stdout=subprocess.PIPE, check=True).stdout


def column(raw, at, count, width):
    """Numbers are stored with all first bytes first, then all second bytes, and so on."""
    places = [raw[at + place * count : at + (place + 1) * count] for place in range(width)]
    return [int.from_bytes(number, "little") for number in zip(*places, strict=True)], at + count * width


def stream(archives, key):
    """Yield the tar stream of a generation in format 2."""
    manifest = (archives / key).read_bytes()
    offset, length, _, magic = struct.unpack("<QQQ8s", manifest[-32:])
    assert magic == b"CHMANIF2", "this is no manifest"
    tail = unzstd(manifest[offset : offset + length])
    _, packs, chunks, runs, _, _ = struct.unpack_from("<QIIIIQ", tail)
    at = 32
    names = [tail[at + 40 * number : at + 40 * number + 32].hex() for number in range(packs)]
    at += 40 * packs
    pack_of, at = column(tail, at, chunks, 4)
    offset_of, at = column(tail, at, chunks, 8)
    length_of, at = column(tail, at, chunks, 4)
    at += 4 * chunks  # lengths of the contents
    sums = [tail[at + 32 * number : at + 32 * number + 32] for number in range(chunks)]
    at += 32 * chunks
    run_chunks, at = column(tail, at, runs, 4)
    run_offsets, at = column(tail, at, runs, 4)
    run_lengths, at = column(tail, at, runs, 4)
    folder = archives / "packs" / key.split("/")[0]
    last, content = None, b""
    for chunk, start, size in zip(run_chunks, run_offsets, run_lengths, strict=True):
        if chunk != last:
            with open(folder / names[pack_of[chunk]], "rb") as pack:
                pack.seek(offset_of[chunk])
                frame = pack.read(length_of[chunk])
            assert hashlib.sha256(frame).digest() == sums[chunk], f"{pack.name} is damaged"
            last, content = chunk, unzstd(frame)
        yield content[start : start + size]
    yield bytes(1024)


def main():
    archives, key, target = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    target.mkdir()
    options = ["--numeric-owner", "--delay-directory-restore", "--xattrs", "--xattrs-include=user.*"]
    command = ["tar", "-xpf", "-", *options, "-C", str(target)]
    tar = subprocess.Popen(command, stdin=subprocess.PIPE)
    if key.endswith("home.tar.zst"):
        subprocess.run(["zstd", "-dcq", str(archives / key)], stdout=tar.stdin, check=True)
    else:
        for piece in stream(archives, key):
            tar.stdin.write(piece)
    tar.stdin.close()
    sys.exit(tar.wait())


if __name__ == "__main__":
    main()
