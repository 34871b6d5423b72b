from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from cs_transformers.data.captions import feature_file
from cs_transformers.data.scene_files import write_scenes
from cs_transformers.data.sources import DATA_SETS

README = Path(__file__).resolve().parents[2] / "datasets" / "README.md"
TEXT = README.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_data_set_that_can_be_fetched_is_described_with_its_sums(name: str) -> None:
    family, _, member = name.partition("-")
    assert f"`{name}`" in TEXT or (f"`{family}-" in TEXT and f"`-{member}`" in TEXT)
    for file in DATA_SETS[name].sources:
        if file.size is not None:
            assert f"{file.size:,}" in TEXT
        if file.sha256 is not None and len(file.sha256) == 64:
            assert file.sha256 in TEXT
        elif file.md5 is not None and file.sha256 is None:
            assert file.md5 in TEXT


def test_the_files_of_scenes_are_those_that_are_written(tmp_path: Path) -> None:
    written = {path.name for path in write_scenes(tmp_path / "scenes", train=2, val=1).iterdir()}
    told = {name for row in re.findall(r"^\| (`.*?) \| ", TEXT, re.M) for name in re.findall(r"`([\w{}.]+)`", row)}
    told |= {name.replace("{split}", split) for name in told for split in ("train", "val")}
    assert written <= told


def test_the_names_of_feature_files_are_those_that_are_read() -> None:
    for options in ({}, {"features": "grid"}, {"pca_features": False}):
        assert f"`{feature_file('train', **options)}`" in TEXT


def test_the_sums_are_those_of_the_files(data_dir: Path) -> None:
    rows = re.findall(r"^\| `(\S+)` \| ([\d,]+) \| `([0-9a-f]{64})` \|$", TEXT, re.M)
    assert len(rows) == 16
    for name, size, digest in rows:
        content = (data_dir / name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (int(size.replace(",", "")), digest)
