"""Troubles that other courses and libraries of this field have had, and that cut across the files of this one."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from cs_transformers.captioning import CaptioningTransformer
from cs_transformers.checks import EXERCISES
from cs_transformers.checks.client import Worker
from cs_transformers.checks.refresh import reference_answers
from cs_transformers.checks.runner import Runner
from cs_transformers.course import classroom, doctor
from cs_transformers.data import ensure_scenes, load_coco_data
from cs_transformers.training.recipes import captions_by_heart, overfit_batch, overfit_captions, predict_classes
from cs_transformers.vit import VisionTransformer

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "cs_transformers"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WORDS = {word: index for index, word in enumerate(["<NULL>", "<START>", "<END>", "<UNK>", *"abcdefgh"])}


def captioner(**options: object) -> CaptioningTransformer:
    torch.manual_seed(0)
    return CaptioningTransformer(WORDS, input_dim=6, wordvec_dim=8, num_heads=2, max_length=9, **options)


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


# ---------------------------------------------------------------- devices


def test_writing_captions_makes_everything_on_the_models_device() -> None:
    """With a default device that holds no numbers, whatever is made without the model's own device fails."""
    model, images, real = captioner(memory_positions=(2, 2)), noise(3, 4, 6), torch.ones(3, 4)
    read, pixels = torch.tensor([[1, 4, 5]]).repeat(3, 1), noise(2, 3, 8, 8)
    classifier = VisionTransformer(img_size=8, patch_size=4, embed_dim=8, num_layers=1)
    expected = model.sample(images, 7), model.beam_search(images, 7, beam_size=3)
    with torch.device("meta"):
        np.testing.assert_array_equal(model.sample(images, 7, memory_mask=real), expected[0])
        np.testing.assert_array_equal(model.sample(images.numpy(), 7), expected[0])
        np.testing.assert_array_equal(model.beam_search(images, 7, beam_size=3, memory_mask=real), expected[1])
        assert model(images, read, memory_mask=real).isfinite().all()
        assert model.cross_attention(images, read).isfinite().all()
        assert classifier(pixels).isfinite().all()


def test_verdicts_do_not_depend_on_what_the_caller_has_set() -> None:
    """Neither a default device, nor a default dtype, nor the global seed reaches the check."""
    torch.manual_seed(12345)
    torch.set_default_dtype(torch.float64)
    answers = reference_answers()
    try:
        with torch.device("meta"):
            worker = Worker()
            try:
                runner = Runner(worker=worker)
                verdicts = [runner.verdict_on(EXERCISES[id], answers) for id in ("1.6", "2.1", "4.1", "5.1", "6.3")]
            finally:
                worker.close()
    finally:
        torch.set_default_dtype(torch.float32)
    assert [verdict.state for verdict in verdicts] == ["passed"] * 5


def test_the_graphics_chip_of_a_mac_is_never_chosen_unasked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Some of its kernels have given wrong numbers or NaN where the processor is right."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    classroom.start("01")
    assert capsys.readouterr().out.rstrip().endswith(", cpu")
    assert [finding.found[:3] for finding in doctor.examine() if finding.what == "device"] == ["cpu"]
    assert captioner().embedding.weight.device.type == "cpu"


# ---------------------------------------------------------------- learning


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_both_recipes_by_heart_reach_their_goal_with_every_seed(seed: int) -> None:
    torch.manual_seed(seed)
    features = torch.randn(12, 64)
    captions = torch.randint(4, len(WORDS), (12, 9))
    captions[:, 0], captions[:, -1], captions[::3, 6:] = 1, 2, 0
    model = CaptioningTransformer(WORDS, 64, 128, num_layers=1, max_length=9)
    overfit_captions(model, features, captions, steps=200, batch_size=6, seed=seed)
    assert captions_by_heart(model, features, captions)["loss"] < 0.05
    images, labels = torch.randn(32, 3, 16, 16), torch.randint(0, 10, (32,))
    classifier = VisionTransformer(img_size=16, patch_size=8, embed_dim=64, num_layers=1, num_heads=2)
    overfit_batch(classifier, images, labels, steps=120)
    assert torch.equal(predict_classes(classifier, images), labels)


# ---------------------------------------------------------------- a session in a notebook

SESSION = """
    import os, pathlib, sys
    sys.path.insert(0, os.getcwd())
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance()
    def run(source):
        result = shell.run_cell(source)
        problem = result.error_before_exec or result.error_in_exec
        if problem is not None:
            sys.exit(f"{source}: {problem!r}")
    imports = '''
    from cs_transformers.attention import MultiHeadAttention, recorded_weights
    from cs_transformers.blocks import TransformerDecoder, TransformerDecoderLayer
    from cs_transformers.cache import DecoderCache, KeyValueCache
    from cs_transformers.captioning import CaptioningTransformer
    from cs_transformers.positional import PositionalEncoding2D
    '''
    objects = '''
    attend = MultiHeadAttention(8, 2, dropout=0.0)
    captioner = CaptioningTransformer(words, 6, 8, 2, 1, memory_positions=PositionalEncoding2D(8))
    decoder = TransformerDecoder(TransformerDecoderLayer(8, 2, 16), 2)
    state, cache, caches = captioner.start_state(images), KeyValueCache(), DecoderCache(2)
    '''
    use = '''
    attend(x, x, x, cache=cache), decoder(x, x, cache=caches), captioner.step(captions[:, :1], state)
    captioner.sample(images, 5), captioner.beam_search(images, 5), captioner.cross_attention(images, captions)
    with recorded_weights(captioner) as seen:
        captioner(images, captions)
    assert len(seen) == 2
    '''
    run("%load_ext autoreload\\n%autoreload 2\\nimport torch")
    run("x, images, captions = torch.randn(2, 3, 8), torch.randn(2, 4, 6), torch.ones(2, 3, dtype=torch.int64)")
    run("words = {word: index for index, word in enumerate(['<NULL>', '<START>', '<END>', 'a'])}")
    for cell in (imports, objects, use, "before = attend(x, x, x)"):
        run(cell)
    for number, name in enumerate(["attention", "cache", "positional", "blocks", "captioning", "errors"], 1):
        path = pathlib.Path("cs_transformers", name + ".py")
        text = path.read_text(encoding="utf-8")
        if name == "attention":
            text = text.replace("out = self.proj(join_heads(context))", "out = 2 * self.proj(join_heads(context))")
        path.write_text(text + "\\n\\nedited = True\\n", encoding="utf-8")
        os.utime(path, (2e9 + number, 2e9 + number))
        run(f"import cs_transformers.{name}\\nassert cs_transformers.{name}.edited")
        run("torch.testing.assert_close(attend(x, x, x), 2 * before)")
        for cell in (use, imports, use, objects + use):
            run(cell)
        run("before = attend(x, x, x) / 2")
    print("went on")
"""


def test_objects_made_before_an_edit_go_on_working_after_it(tmp_path: Path) -> None:
    """The file of a layer is edited while layers exist; they use the new code, and old and new objects mix."""
    skip = shutil.ignore_patterns("__pycache__", "references", "mistakes")
    shutil.copytree(PACKAGE, tmp_path / "cs_transformers", ignore=skip)
    code = textwrap.dedent(SESSION).replace("'''\n    ", "'''\n")
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[-1:] == ["went on"], run.stdout[-1000:] + run.stderr[-1000:]


# ---------------------------------------------------------------- committed notebooks


def outputs_of(path: Path) -> list[tuple[str, str, str]]:
    """Give the id, source and printed text of each code cell."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    texts = ["".join("".join(output.get("text", "")) for output in cell["outputs"]) for cell in cells]
    return [(cell["id"], "".join(cell["source"]), text) for cell, text in zip(cells, texts, strict=True)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_compared_numbers_are_rounded_to_what_every_machine_agrees_on(path: Path) -> None:
    for id, source, text in outputs_of(path):
        if "NBVAL_IGNORE_OUTPUT" not in source:
            assert not re.search(r"\d\.\d{5}|\d\.\d+e[-+]\d", text), f"{id}: {text}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_show_every_picture_without_a_network(path: Path) -> None:
    for id, source, text in outputs_of(path):
        assert "no picture (" not in text, f"{id}: {text}"
        assert not re.search(r"""["']https?://""", source), f"{id} asks a server"


def test_pictures_of_the_embedded_captions_have_addresses_that_need_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    data = load_coco_data(ensure_scenes(8, 4))
    assert {str(url).split("://")[0] for split in ("train", "val") for url in data[f"{split}_urls"]} == {"scene"}


def test_every_nbval_command_we_give_sets_a_limit_for_cells_and_uses_this_kernel() -> None:
    texts = [
        path.read_text(encoding="utf-8") for path in (ROOT / "Makefile", ROOT / "README.md", *ROOT.glob("docs/*.md"))
    ]
    joined = [text.replace("\\\n", " ") for text in texts]
    commands = [line for text in joined for line in text.splitlines() if "--nbval " in line]
    assert len(commands) >= 3
    for command in commands:
        assert "--nbval-cell-timeout" in command
        assert "--nbval-current-env" in command


# ---------------------------------------------------------------- files

# Owners of an open() that gives numbers, pictures or archives.
NO_TEXT = ("os", "Image", "tarfile", "bundle", "webbrowser", "archive", "module")


def test_text_is_read_and_written_as_utf8_whatever_the_machine_prefers() -> None:
    """A call that names no encoding takes that of the machine: cp1252 on one, ASCII on another."""
    found = []
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or any(keyword.arg == "encoding" for keyword in node.keywords):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            is_text = name in ("read_text", "write_text", "fdopen") or (name == "open" and owner not in NO_TEXT)
            if is_text and not re.search(r"'[rwax]\+?b\+?'|/proc/", ast.unparse(node)):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found


def test_nobody_is_told_to_open_checkpoints_in_the_unsafe_way() -> None:
    unsafe = "weights_only=" + "False"
    paths = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.md"), *NOTEBOOKS, *ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    assert not [path.name for path in paths if unsafe in path.read_text(encoding="utf-8")]
