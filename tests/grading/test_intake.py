"""What LMSs and students deliver is taken in; what is dangerous stays outside; every repair is said."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from classes import FORMS, QUICK, RIGHT, Author, Files, Pupil, pupils, write_class, zipped

from cs_transformers.checks.markers import is_stub, lift
from cs_transformers.course.submission import reduced
from cs_transformers.grading import archives, intake
from cs_transformers.grading.archives import Contents
from cs_transformers.grading.intake import course_files, digest_of, take_in
from cs_transformers.grading.model import Submission
from cs_transformers.grading.names import natural, read_name
from cs_transformers.grading.notebook_cells import read_sheet
from cs_transformers.grading.repairs import mend, to_text
from cs_transformers.grading.roster import Roster, plain, read_roster, slug


@pytest.fixture(scope="module")
def author() -> Author:
    return Author()


@pytest.fixture(scope="module")
def stubs() -> dict[str, str]:
    return course_files()


def one(tmp_path: Path, files: Files | None = None, *, archive: bytes | None = None, name: str = "jane") -> Submission:
    """Take a single delivery in."""
    folder = tmp_path / "in"
    folder.mkdir()
    if archive is not None:
        (folder / f"{name}.zip").write_bytes(archive)
    for path, data in (files or {}).items():
        target = folder / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    found = take_in(folder, tmp_path / "work")
    assert len(found) == 1
    return found[0]


def body(submission: Submission, file: str, name: str) -> str:
    return submission.answers.regions[file][name].body


# ---- the whole class ------------------------------------------------------------------------------------------------


def test_every_form_of_the_class_gives_every_answer_and_text(tmp_path: Path, author: Author) -> None:
    people = pupils(len(FORMS))
    assert {pupil.form for pupil in people} == set(FORMS)
    roster = write_class(tmp_path / "class", people, author)
    found = {taken.person.id: taken for taken in take_in(tmp_path / "class", tmp_path / "work", roster)}
    assert sorted(found) == [pupil.id for pupil in people]
    for pupil in people:
        taken = found[pupil.id]
        assert taken.person.listed, pupil.form
        assert not taken.problem, pupil.form
        assert not taken.incidents, pupil.form
        assert taken.texts == pupil.texts, pupil.form
        for file, text in author.sources(pupil).items():
            for name, region in lift(text, file).items():
                if name != "helpers":
                    got = taken.answers.regions[file][name].body
                    assert got.split() == region.body.split(), (pupil.form, file, name)
        assert not taken.answers.problems, pupil.form


def test_each_damage_is_reported_in_words(tmp_path: Path, author: Author) -> None:
    roster = write_class(tmp_path / "class", pupils(len(FORMS)), author)
    taken = take_in(tmp_path / "class", tmp_path / "work", roster)
    said = {pupil.form: pupil.id for pupil in pupils(len(FORMS))}
    by_id = {one.person.id: "\n".join([*one.repairs, *one.changes]) for one in taken}
    wanted = {
        "BOM": "a byte order mark was taken away",
        "CRLF": "line ends of another system were changed",
        "UTF-16": "read as UTF-16",
        "Windows text": "read as Windows text",
        "lost markers": "attention.py: the marker lines of 1.1 were lost; its answer was found by its place",
        "doubled": "1.4 is there twice",
        "renamed": "My_Blocks.PY: taken as blocks.py",
        "two copies": "mine/cs_transformers/attention.py was taken",
        "outside": "attention.py: changes outside the answer regions have no effect (line 1: import os  # mine",
        "cells": "check cells of 1.1, 1.5 deleted or no code any more; 1.2 doubled; their order changed",
    }
    for form, sentence in wanted.items():
        assert sentence in by_id[said[form]], form
    for form in ("folder", "zip", "nested zips", "tar", "__MACOSX", "unicode names", "moodle"):
        assert by_id[said[form]] == "", form


def test_the_latest_attempt_comes_last(tmp_path: Path, author: Author) -> None:
    pupil = Pupil("s1", "Jane", {"1.1": RIGHT}, "attempts")
    (tmp_path / "class").mkdir()
    FORMS["attempts"](author, pupil, tmp_path / "class")
    first, second = take_in(tmp_path / "class", tmp_path / "work")
    assert (first.attempt, second.attempt) == (1, 2)
    assert is_stub(body(first, "attention.py", "1.1"))
    assert not is_stub(body(second, "attention.py", "1.1"))


def test_attempts_inside_one_folder_are_told_apart(tmp_path: Path, author: Author, stubs: dict[str, str]) -> None:
    good = author.sources(Pupil("s1", "Jane", {"1.1": RIGHT}, ""))["attention.py"].encode()
    old = {"attempt 2.zip": zipped({"cs_transformers/attention.py": stubs["attention.py"].encode()})}
    new = {"attempt 10.zip": zipped({"cs_transformers/attention.py": good})}
    (tmp_path / "in" / "jane").mkdir(parents=True)
    for name, data in {**old, **new}.items():
        (tmp_path / "in" / "jane" / name).write_bytes(data)
    taken = take_in(tmp_path / "in", tmp_path / "work")
    assert [is_stub(body(one, "attention.py", "1.1")) for one in taken] == [True, False]


def test_one_zip_of_many_and_the_zip_of_one_student(tmp_path: Path, author: Author) -> None:
    course = {f"cs_transformers/{file}": text.encode() for file, text in author.stubs.items()}
    many = {f"hand-in/{who}/{name}": data for who in ("ann", "bob") for name, data in course.items()}
    (tmp_path / "many.zip").write_bytes(zipped(many))
    (tmp_path / "carl.zip").write_bytes(zipped(course, "transformers/"))
    assert [one.person.id for one in take_in(tmp_path / "many.zip", tmp_path / "w1")] == ["ann", "bob"]
    assert [one.person.id for one in take_in(tmp_path / "carl.zip", tmp_path / "w2")] == ["carl"]


def test_a_folder_that_is_one_students_course_is_one_submission(tmp_path: Path, stubs: dict[str, str]) -> None:
    (tmp_path / "jane" / "cs_transformers").mkdir(parents=True)
    (tmp_path / "jane" / "cs_transformers" / "attention.py").write_text(stubs["attention.py"], encoding="utf-8")
    assert [one.person.id for one in take_in(tmp_path / "jane", tmp_path / "work")] == ["jane"]


def test_an_export_of_gradescope_is_filed_by_its_metadata(tmp_path: Path, stubs: dict[str, str]) -> None:
    folder = tmp_path / "in" / "submission_77"
    folder.mkdir(parents=True)
    (folder / "attention.py").write_text(stubs["attention.py"], encoding="utf-8")
    meta = "submission_77:\n  :submitters:\n  - :name: Jane Doe\n    :sid: 's42'\n    :email: j@x\n"
    (tmp_path / "in" / "submission_metadata.yml").write_text(meta, encoding="utf-8")
    assert [one.person.id for one in take_in(tmp_path / "in", tmp_path / "work")] == ["s42"]


def test_taking_in_twice_gives_the_same_and_the_clean_copy_is_all_there_is(tmp_path: Path, author: Author) -> None:
    roster = write_class(tmp_path / "class", pupils(4), author)
    first = take_in(tmp_path / "class", tmp_path / "work", roster)
    (tmp_path / "work" / "s000" / "stale").mkdir()
    second = take_in(tmp_path / "class", tmp_path / "work", roster)
    assert [one.digest for one in first] == [one.digest for one in second]
    assert not (tmp_path / "work" / "s000" / "stale").exists()


def test_the_digest_depends_on_answers_and_texts_alone(tmp_path: Path, author: Author) -> None:
    pupil = Pupil("s1", "Jane", {"1.1": RIGHT}, "", {"6.1": "because"})
    plain_form, named = tmp_path / "a", tmp_path / "b"
    for folder, form in ((plain_form, "folder"), (named, "nested zips")):
        folder.mkdir()
        FORMS[form](author, pupil, folder)
    one_, other = (take_in(folder, tmp_path / f"w{folder.name}")[0] for folder in (plain_form, named))
    assert one_.digest == other.digest
    assert digest_of(one_.answers, {"6.1": "other"}) != one_.digest


# ---- what is dangerous ----------------------------------------------------------------------------------------------


def test_paths_out_of_an_archive_are_incidents_and_write_nothing(tmp_path: Path, stubs: dict[str, str]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ("../../evil.py", "/etc/evil.py", "C:\\evil.py", "a\\..\\..\\evil.py"):
            archive.writestr(name, "print('evil')")
        archive.writestr("cs_transformers/attention.py", stubs["attention.py"])
    taken = one(tmp_path, archive=buffer.getvalue())
    assert len(taken.incidents) == 4
    assert all("a path out of the archive" in sentence for sentence in taken.incidents)
    assert not taken.problem
    assert not list(tmp_path.rglob("evil*"))


def test_links_are_not_followed_in_folders_zips_and_tars(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("### BEGIN ANSWER 1.1\nreturn 'stolen'\n### END ANSWER 1.1\n", encoding="utf-8")
    folder = tmp_path / "in" / "jane" / "cs_transformers"
    folder.mkdir(parents=True)
    os.symlink(secret, folder / "attention.py")
    os.symlink("/etc", folder / "data")
    os.mkfifo(folder / "pipe.py")
    linked = zipfile.ZipInfo("cs_transformers/attention.py")
    linked.external_attr = (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(linked, str(secret))
    (tmp_path / "in" / "kim.zip").write_bytes(buffer.getvalue())
    with tarfile.open(tmp_path / "in" / "lea.tar", "w") as tar:
        member = tarfile.TarInfo("cs_transformers/attention.py")
        member.type, member.linkname = tarfile.SYMTYPE, str(secret)
        tar.addfile(member)
    found = {taken.person.id: taken for taken in take_in(tmp_path / "in", tmp_path / "work")}
    assert len(found["jane"].incidents) == 3
    for id in ("jane", "kim", "lea"):
        assert any("link" in sentence for sentence in found[id].incidents), id
        assert found[id].problem, id
    assert "stolen" not in str(found)


def test_a_bomb_is_left_out_and_the_rest_is_graded(
    tmp_path: Path, stubs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "FILE_LIMIT", 1 << 20)
    files = {"cs_transformers/attention.py": stubs["attention.py"].encode(), "notes.md": b"\0" * (5 << 20)}
    taken = one(tmp_path, archive=zipped(files))
    assert taken.incidents == ("jane/notes.md: holds more than 1 MB (5 MB declared), left out",)
    assert "1.1" in taken.answers.regions["attention.py"]


def test_archives_in_archives_end_somewhere(tmp_path: Path) -> None:
    inner = zipped({"attention.py": b"x = 1\n"})
    for _ in range(8):
        inner = zipped({"a.zip": inner})
    taken = one(tmp_path, archive=inner)
    assert "deeper than 4" in taken.incidents[0]


def test_very_many_entries_end_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "ENTRY_LIMIT", 10)
    contents = Contents()
    contents.add_bytes("a.zip", zipped({f"{number}.py": b"x" for number in range(30)}))
    assert len(contents.files) == 10
    assert contents.incidents == ["more than 10 entries; the rest was left out"]


def test_all_files_of_one_delivery_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "TOTAL_LIMIT", 2500)
    contents = Contents()
    contents.add_bytes("a.zip", zipped({f"{number}.py": b"x" * 1000 for number in range(5)}))
    assert len(contents.files) == 2
    assert len(contents.incidents) == 3


def test_what_is_unpacked_and_left_out_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "READ_LIMIT", 70_000)
    bomb = zipped({"zeros.py": b"\0" * 9000})
    monkeypatch.setattr(archives, "TOTAL_LIMIT", 1000)  # what is left out for its size was unpacked all the same
    contents = Contents()
    contents.add_bytes("a.zip", zipped({f"{number}.zip": bomb for number in range(200)}))
    assert contents.incidents[-1] == "unpacks to more than 0 MB; the rest was left out"
    assert len(contents.incidents) < 100


@pytest.mark.parametrize("deep", ["-" * 5000 + "1", "1+" * 3000 + "1", "(" * 5000 + "1" + ")" * 5000])
@pytest.mark.parametrize("place", ["region", "margin", "helpers"])
def test_code_nested_too_deep_to_be_read_costs_its_author_alone(
    tmp_path: Path, stubs: dict[str, str], deep: str, place: str
) -> None:
    text = stubs["attention.py"]
    if place == "margin":  # without markers the whole file is parsed
        text = "\n".join(line for line in text.splitlines() if "###" not in line) + f"\nx = {deep}\n"
    elif place == "helpers":
        text = text.replace("### BEGIN ANSWER helpers\n", f"### BEGIN ANSWER helpers\nx = {deep}\n")
    else:
        line = next(line for line in text.splitlines() if "### BEGIN ANSWER 1.1" in line)
        text = text.replace(line, f"{line}\n{line[: len(line) - len(line.lstrip())]}x = {deep}")
    files = {"cs_transformers/attention.py": text.encode(), "cs_transformers/vit.py": stubs["vit.py"].encode()}
    taken = one(tmp_path, files)
    assert not taken.problem
    assert "vit.py" in taken.answers.regions
    if place == "region":
        assert "not valid Python" in taken.answers.problems["attention.py", "1.1"][1]


def hand_in_two(folder: Path, stubs: dict[str, str]) -> None:
    """Jane's delivery and Kim's, told apart by a comment."""
    for name in ("jane", "kim"):
        (folder / name).mkdir(parents=True)
        (folder / name / "vit.py").write_text(stubs["vit.py"] + f"# {name}\n", encoding="utf-8")


def test_one_delivery_that_breaks_the_taking_in_does_not_cost_the_class(
    tmp_path: Path, stubs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in_two(tmp_path / "in", stubs)

    def breaks(text: str, *rest: str) -> object:
        if "# jane" in text:
            raise MemoryError("of the grader")
        return mend(text, *rest)

    monkeypatch.setattr(intake, "mend", breaks)
    jane, kim = take_in(tmp_path / "in", tmp_path / "work")
    assert (jane.problem, kim.problem) == ("it could not be taken in", "")
    assert jane.incidents == ("it could not be taken in: MemoryError: of the grader",)
    assert not (tmp_path / "work" / "jane" / "1").exists()


def test_one_delivery_that_cannot_be_read_at_all_does_not_cost_the_class(
    tmp_path: Path, stubs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in_two(tmp_path / "in", stubs)
    read = Contents.add_path

    def without_end(contents: Contents, path: Path, name: str) -> None:
        if "jane" in path.parts:
            raise RecursionError("maximum recursion depth exceeded")
        read(contents, path, name)

    monkeypatch.setattr(Contents, "add_path", without_end)
    jane, kim = take_in(tmp_path / "in", tmp_path / "work")
    assert (jane.problem, kim.problem) == ("jane: cannot be read (RecursionError)", "")
    assert kim.answers.regions


def test_a_manifest_too_deep_for_the_journal_is_passed_over(tmp_path: Path, stubs: dict[str, str]) -> None:
    home = tmp_path / "in" / "jane"
    home.mkdir(parents=True)
    (home / "vit.py").write_text(stubs["vit.py"], encoding="utf-8")
    for depth, kept in ((1, True), (700, False)):
        text = '{"verdicts": ' + "[" * depth + "]" * depth + "}"
        (home / "manifest.json").write_text(text, encoding="utf-8")
        (jane,) = take_in(tmp_path / "in", tmp_path / "work")
        assert bool(jane.manifest) == kept


def test_a_full_disk_is_nobodys_fault_who_handed_in(
    tmp_path: Path, stubs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in" / "jane").mkdir(parents=True)
    (tmp_path / "in" / "jane" / "vit.py").write_text(stubs["vit.py"], encoding="utf-8")

    def full(path: Path, _: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(intake, "_write", full)
    with pytest.raises(OSError, match="No space left on device"):
        take_in(tmp_path / "in", tmp_path / "work")


def test_a_file_far_too_long_for_a_source_costs_itself_only(tmp_path: Path, stubs: dict[str, str]) -> None:
    long = stubs["attention.py"] + '"""\n' * 200_000
    files = {"cs_transformers/attention.py": long.encode(), "cs_transformers/vit.py": stubs["vit.py"].encode()}
    taken = one(tmp_path, files)
    assert list(taken.answers.regions) == ["vit.py"]
    assert "attention.py could not be read: it is longer than 500,000 letters; hand in the code alone" in taken.repairs


def test_signs_that_only_look_like_figures_are_names(tmp_path: Path, stubs: dict[str, str]) -> None:
    files = {"notes1\u00b23.md": b"x", "\u00b2/4\u00bc5.txt": b"x", "cs_transformers/vit.py": stubs["vit.py"].encode()}
    assert not one(tmp_path, files, name="\u00b3").problem
    assert natural("x\u00b2") > natural("x1")


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX systems alone")
def test_names_in_the_bytes_of_another_system_are_read(tmp_path: Path, stubs: dict[str, str]) -> None:
    folder = os.fsencode(tmp_path / "in") + b"/J\xfcrgen"
    try:
        os.makedirs(folder)
    except OSError:
        pytest.skip("this file system wants UTF-8")
    Path(os.fsdecode(folder + b"/vit \xfc.py")).write_text(stubs["vit.py"], encoding="utf-8")
    (taken,) = take_in(tmp_path / "in", tmp_path / "work")
    assert (taken.person.id, taken.person.name, taken.source) == ("j\u00fcrgen", "J\u00fcrgen", "J\u00fcrgen")
    assert "vit \u00fc.py: taken as vit.py" in taken.repairs


def test_a_very_long_path_keeps_its_end_and_its_person_a_folder(tmp_path: Path, stubs: dict[str, str]) -> None:
    long = "\u8a9e" * 300
    files = {f"{long}{name}/cs_transformers/vit.py": stubs["vit.py"].encode() for name in "ab"}
    (tmp_path / "in.zip").write_bytes(zipped(files))
    taken = take_in(tmp_path / "in.zip", tmp_path / "work")
    assert [one.problem for one in taken] == ["", ""]
    assert len({one.person.id for one in taken}) == 2
    assert max(len(one.person.id.encode()) for one in taken) <= 200


def test_submissions_are_never_what_is_replaced(tmp_path: Path, stubs: dict[str, str]) -> None:
    source = tmp_path / "work" / "jane" / "vit.py"
    source.parent.mkdir(parents=True)
    source.write_text(stubs["vit.py"], encoding="utf-8")
    for submissions in (tmp_path / "work", source.parent):
        with pytest.raises(ValueError, match=r"expected submissions elsewhere than in .*work, which is replaced"):
            take_in(submissions, tmp_path / "work")
    assert source.is_file()


def test_a_forged_manifest_and_journal_are_only_words(tmp_path: Path, stubs: dict[str, str]) -> None:
    files = {f"cs_transformers/{file}": text.encode() for file, text in stubs.items()}
    files["manifest.json"] = json.dumps({"verdicts": {"1.1": "passed"}, "hashes": {}}).encode()
    files["journal.jsonl"] = b'{"kind": "record", "student": "jane", "exercise": "1.1", "points": 99}\n'
    taken = one(tmp_path, files)
    assert taken.manifest["verdicts"] == {"1.1": "passed"}
    assert is_stub(body(taken, "attention.py", "1.1"))


@pytest.mark.parametrize("text", ["[1, 2]", "not json", "[" * 100_000])
def test_a_manifest_that_is_none_is_passed_over(tmp_path: Path, stubs: dict[str, str], text: str) -> None:
    files = {"manifest.json": text.encode(), "cs_transformers/vit.py": stubs["vit.py"].encode()}
    assert one(tmp_path, files).manifest == {}


# ---- what cannot be graded ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "archive", "words"),
    [
        ({"essay.txt": b"Dear all"}, None, "no file of the course was found in it (essay.txt)"),
        (None, b"this is no zip", "cannot be opened"),
        (None, zipped({"attention.py": b"x"})[:-30], "cannot be opened"),
        (None, zipped({}), "no file of the course was found in it (it is empty)"),
        ({"attention.rar": b"Rar!"}, None, "this kind of archive is not read; hand in a zip"),
    ],
)
def test_what_cannot_be_graded_says_why(tmp_path: Path, files: Files | None, archive: bytes | None, words: str) -> None:
    assert words in one(tmp_path, files, archive=archive).problem


def test_a_locked_zip_says_so(tmp_path: Path) -> None:
    data = bytearray(zipped({"cs_transformers/attention.py": b"x = 1\n"}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert "locked with a password" in one(tmp_path, archive=bytes(data)).problem


def test_notebooks_alone_are_no_answers(tmp_path: Path, author: Author) -> None:
    notebook = author.notebook("01", Pupil("s1", "Jane", {}, ""))
    taken = one(tmp_path, {"01_attention.ipynb": json.dumps(notebook).encode()})
    assert taken.problem == "only notebooks were handed in; the answers stand in the files of cs_transformers/"


def test_a_missing_file_costs_itself_only(tmp_path: Path, author: Author) -> None:
    sources = author.sources(Pupil("s1", "Jane", dict.fromkeys(QUICK, RIGHT), ""))
    files = {f"cs_transformers/{file}": text.encode() for file, text in sources.items() if file != "vit.py"}
    taken = one(tmp_path, files)
    assert not taken.problem
    assert "vit.py" not in taken.answers.regions
    assert any(sentence.startswith("not handed in: vit.py") for sentence in taken.repairs)


def test_a_file_without_graded_exercises_is_not_missed(tmp_path: Path, author: Author) -> None:
    sources = author.sources(Pupil("s1", "Jane", dict.fromkeys(QUICK, RIGHT), ""))
    target = tmp_path / "in" / "jane" / "cs_transformers" / "attention.py"
    target.parent.mkdir(parents=True)
    target.write_text(sources["attention.py"], encoding="utf-8")
    for graded, missed in (
        (["1.1", "1.6"], []),
        (["1.1", "2.1"], ["not handed in: positional.py; nothing of it is graded"]),
    ):
        taken = take_in(tmp_path / "in", tmp_path / "work", graded=graded)[0]
        assert [sentence for sentence in taken.repairs if "not handed in" in sentence] == missed


def test_a_source_that_is_no_text_costs_itself_only(tmp_path: Path, stubs: dict[str, str]) -> None:
    files = {"cs_transformers/vit.py": b"\x00\x01\x02\xff" * 50, "cs_transformers/cache.py": stubs["cache.py"].encode()}
    taken = one(tmp_path, files)
    assert list(taken.answers.regions) == ["cache.py"]
    assert any("vit.py could not be read" in sentence for sentence in taken.repairs)


@pytest.mark.parametrize("what", ["nothing there", "empty"])
def test_nothing_to_take_in_is_an_error(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "in"
    if what == "empty":
        (folder / ".git").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"take_in: expected"):
        take_in(folder, tmp_path / "work")


def test_a_damaged_zip_of_the_whole_class_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "class.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match=r"take_in: expected a folder or a readable zip, got class.zip"):
        take_in(tmp_path / "class.zip", tmp_path / "work")


# ---- names and rosters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "who", "order", "late"),
    [
        ("doejane_123_4567_homework.zip", "doejane", (4567,), False),
        ("doejane_LATE_123_4567_homework-2.zip", "doejane", (4567, 2), True),
        ("Jane Doe_81_assignsubmission_file_", "Jane Doe", (), False),
        ("Jane Doe_81_assignsubmission_file_hw.zip", "Jane Doe", (), False),
        ("hw1_jdoe_attempt_2026-11-30-12-00-01_work.zip", "jdoe", (2026, 11, 30, 12, 0, 1), False),
        ("jane (2).zip", "jane", (2,), False),
        ("jane_attempt_3", "jane", (3,), False),
        ("jane doe late.tar.gz", "jane doe", (), True),
        ("student-12", "student-12", (), False),
        ("Zoe\u0308.zip", "Zo\u00eb", (), False),
    ],
)
def test_names_say_who_which_attempt_and_whether_late(name: str, who: str, order: tuple, late: bool) -> None:
    named = read_name(name)
    assert (named.who, named.order, named.late) == (who, order, late)


def test_people_are_found_by_id_name_and_what_canvas_makes_of_it(tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_text('id,name\ns1,Ana-María Müller\ns2,"O\'Brien, Seán"\ns3,李 小龍\n', encoding="utf-8")
    roster = Roster(read_roster(path))
    for name, id in {
        "s1": "s1", "S1": "s1", "ana maria muller": "s1", "mulleranamaria": "s1", "hw3 s2": "s2", "obrienseán": "s2",
        "Seán O'Brien": "s2", "李小龍": "s3",
    }.items():  # fmt: skip
        person, doubt = roster.find(name)
        assert person is not None, name
        assert (person.id, doubt) == (id, ""), name
    assert roster.find("Bob") == (None, "")


def test_two_people_of_one_name_are_not_guessed(tmp_path: Path, stubs: dict[str, str]) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text("id,name\ns1,Jane Doe\ns2,Jane Doe\n", encoding="utf-8")
    (tmp_path / "in" / "Jane Doe").mkdir(parents=True)
    (tmp_path / "in" / "Jane Doe" / "cache.py").write_text(stubs["cache.py"], encoding="utf-8")
    taken = take_in(tmp_path / "in", tmp_path / "work", roster)[0]
    assert taken.person.id == "jane_doe"
    assert not taken.person.listed
    assert "several people on the roster bear this name (s1, s2)" in taken.repairs[0]


def test_ids_that_differ_in_signs_only_keep_folders_of_their_own(tmp_path: Path, stubs: dict[str, str]) -> None:
    (tmp_path / "in").mkdir()
    roster = tmp_path / "roster.csv"
    roster.write_text("id\na b\na_b\n", encoding="utf-8")
    for id in ("a b", "a_b"):
        (tmp_path / "in" / f"{id}.zip").write_bytes(zipped({"cache.py": stubs["cache.py"].encode()}))
    taken = take_in(tmp_path / "in", tmp_path / "work", roster)
    assert [one.person.id for one in taken] == ["a b", "a_b"]
    assert len({one.folder for one in taken}) == 2


def test_late_by_the_platform_is_said(tmp_path: Path, stubs: dict[str, str]) -> None:
    taken = one(tmp_path, archive=zipped({"cache.py": stubs["cache.py"].encode()}), name="doej_LATE_1_2_x")
    assert taken.repairs[0] == "the learning platform marked it late"


def test_two_people_of_one_name_on_canvas_stay_two(tmp_path: Path, stubs: dict[str, str]) -> None:
    (tmp_path / "in").mkdir()
    for user in (11, 22):
        (tmp_path / "in" / f"doejane_{user}_{user}9_cache.py").write_text(stubs["cache.py"], encoding="utf-8")
    assert [one.person.id for one in take_in(tmp_path / "in", tmp_path / "work")] == ["doejane_11", "doejane_22"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("header", ["id;name;section", "Section;Full name;SIS User ID", "ID number,First name,Surname"])
def test_rosters_are_read_as_platforms_write_them(tmp_path: Path, encoding: str, header: str) -> None:
    cells = {"id": "s1", "name": "Zoë Li", "section": "A", "full name": "Zoë Li", "sis user id": "s1",
             "id number": "s1", "first name": "Zoë", "surname": "Li"}  # fmt: skip
    delimiter = ";" if ";" in header else ","
    row = delimiter.join(cells[name.lower()] for name in header.split(delimiter))
    path = tmp_path / "roster.csv"
    path.write_bytes(f"{header}\r\n{row}\r\n\r\n".encode(encoding))
    person = read_roster(path)[0]
    assert (person.id, person.name, person.listed) == ("s1", "Zoë Li", True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name\nJane\n", "expected a column 'id' in the first line of roster.csv, got name"),
        ("id,name\ns1,A\ns1,B\n", "line 3: expected each id once, got s1 again"),
        ("id\n../../etc\n", "line 2: expected an id that can name a file"),
        ("", "expected a column 'id'"),
        ('id,name\ns1,"Jane\ns2,Kim\n', r"expected a CSV file, got roster.csv \(unexpected end of data\)"),
        ('id,name\ns1,"Jane\nLi"\ns1,Kim\n', "line 4: expected each id once, got s1 again"),
    ],
)
def test_a_roster_that_cannot_be_used_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_roster(path)


def test_a_roster_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_bytes("id;name\r\n1;J\u00fcrgen\r\n".encode("cp1252"))
    assert [person.name for person in read_roster(path)] == ["J\u00fcrgen"]
    path.write_text(f"id,name\n1,{'x' * 200_000}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"roster: expected a CSV file, got roster\.csv \(field larger than"):
        read_roster(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_quoted_cell_of_a_roster_may_span_lines(tmp_path: Path, end: str) -> None:
    path = tmp_path / "roster.csv"
    rows = ["id,name,section", 's1,"Anna', 'Maria Li","A', 'morning"', "s2,Bo Xu,B", ""]
    path.write_bytes(end.join(rows).encode())
    found = [(person.id, person.name, person.section) for person in read_roster(path)]
    assert found == [("s1", "Anna Maria Li", "A morning"), ("s2", "Bo Xu", "B")]


def test_a_roster_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="roster: expected a CSV file"):
        read_roster(tmp_path / "roster.csv")


def test_ids_and_orders_made_from_names() -> None:
    assert slug("../..") == "unnamed"
    assert plain("Doe, Jane") == plain("jane doe")
    assert sorted(["hw10", "hw2", "HW1"], key=natural) == ["HW1", "hw2", "hw10"]


# ---- repairs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "text", "note"),
    [
        ("grün\n".encode(), "grün\n", ""),
        ("grün\r\n".encode("utf-16"), "grün\n", "read as UTF-16"),
        ("return x\n".encode("utf-16-le"), "return x\n", "read as UTF-16"),
        ("return x\n".encode("utf-16-be"), "return x\n", "read as UTF-16"),
        ("grün\n".encode("cp1252"), "grün\n", "read as Windows text, it is not UTF-8"),
        (b"a\rb\r", "a\nb\n", "line ends of another system were changed"),
    ],
)
def test_text_is_read_in_the_encodings_that_editors_write(data: bytes, text: str, note: str) -> None:
    assert to_text(data, "x.py") == (text, note)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ValueError, match="expected text, got bytes that are none"):
        to_text(b"\x7fELF\0\0\1\2\3\4\5\6", "x.py")


def test_each_marker_line_may_be_lost_and_the_answer_is_found(author: Author, stubs: dict[str, str]) -> None:
    solved = author.sources(Pupil("s1", "Jane", dict.fromkeys(QUICK, RIGHT), ""))
    for file in ("attention.py", "vit.py", "decoding.py", "blocks.py"):
        regions = {name: region for name, region in lift(solved[file], file).items() if name != "helpers"}
        for name, region in regions.items():
            if is_stub(region.body):
                continue
            lines = solved[file].splitlines(keepends=True)
            for gone in ([region.first], [region.last], [region.first, region.last]):
                damaged = "".join(line for number, line in enumerate(lines, 1) if number not in gone)
                mended = mend(damaged, stubs[file], file)
                found = lift(mended.text, file)
                assert set(regions) <= set(found), (file, name, gone)
                assert found[name].body.strip() == region.body.strip(), (file, name, gone)
                assert f"the marker lines of {name} were lost" in mended.repairs[0]
                others = {other: found[other].body for other in regions if other != name}
                assert others == {other: regions[other].body for other in others}


def test_lost_markers_are_mended_in_a_file_that_does_not_parse(author: Author, stubs: dict[str, str]) -> None:
    text = author.sources(Pupil("s1", "Jane", {"1.1": RIGHT, "1.4": RIGHT}, ""))["attention.py"]
    text = text.replace("    ### BEGIN ANSWER 1.4\n", "").replace("    ### END ANSWER 1.4\n", "")
    text = text.replace("### BEGIN ANSWER 1.2\n", "### BEGIN ANSWER 1.2\n    if (:\n")
    found = lift(mend(text, stubs["attention.py"], "attention.py").text)
    assert found["1.4"].body.split() == author.solved.regions["attention.py"]["1.4"].body.split()


def test_helpers_whose_markers_were_lost_are_gathered(stubs: dict[str, str]) -> None:
    text = stubs["attention.py"].replace("### BEGIN ANSWER helpers\n", "").replace("### END ANSWER helpers\n", "")
    text = text.replace("import torch\n", "import torch\nfrom math import sqrt as root\n", 1)
    text += "\n\ndef mine(x):\n    return root(x)\n"
    mended = mend(text, stubs["attention.py"], "attention.py")
    helpers = lift(mended.text)["helpers"].body
    assert "from math import sqrt as root" in helpers
    assert "def mine(x):" in helpers
    assert "the marker lines of helpers were lost" in mended.repairs[-1]


def test_a_function_that_is_gone_is_reported_and_the_others_stay(stubs: dict[str, str]) -> None:
    text = stubs["cache.py"].replace("def extend_cache", "def extend_my_cache")
    text = text.replace("### BEGIN ANSWER 4.3", "").replace("### END ANSWER 4.3", "")
    mended = mend(text, stubs["cache.py"], "cache.py")
    assert mended.repairs == ["cache.py: the marker lines of 4.3 were lost and its answer was not found"]


def test_a_region_of_another_file_is_passed_over(stubs: dict[str, str]) -> None:
    text = stubs["cache.py"] + "\n### BEGIN ANSWER 1.1\npass\n### END ANSWER 1.1\n"
    mended = mend(text, stubs["cache.py"], "cache.py")
    assert "there is no exercise 1.1 in this file" in mended.repairs[0]
    assert "1.1" not in lift(mended.text)


def test_of_two_regions_the_last_that_is_no_stub_counts(stubs: dict[str, str]) -> None:
    region = lift(stubs["cache.py"])["4.3"]
    block = "    ### BEGIN ANSWER 4.3\n    return {}\n    ### END ANSWER 4.3\n"
    for bodies, wanted in (((1, 2), "2"), ((1, None), "1"), ((None, 2), "2")):
        text = stubs["cache.py"]
        start = "\n".join(text.splitlines()[: region.first - 1])
        regions = [
            block.format(n) if n else "    ### BEGIN ANSWER 4.3\n    pass\n    ### END ANSWER 4.3\n" for n in bodies
        ]
        mended = mend(f"{start}\n{''.join(regions)}", text, "cache.py")
        assert lift(mended.text)["4.3"].body.strip() == f"return {wanted}"
        assert any("4.3 is there twice" in sentence for sentence in mended.repairs)


def test_an_untouched_file_needs_no_repair_and_shows_no_change(stubs: dict[str, str]) -> None:
    for file, text in stubs.items():
        mended = mend(text, text, file)
        assert (mended.repairs, mended.changes) == ([], []), file
        assert mended.text == text, file


def test_what_cst_submit_writes_is_taken_in_without_a_word(author: Author, stubs: dict[str, str]) -> None:
    sources = author.sources(Pupil("s1", "Jane", dict.fromkeys(QUICK, RIGHT), ""))
    for file, text in sources.items():
        mended = mend(reduced(text, file), stubs[file], file)
        assert (mended.repairs, mended.changes) == ([], []), file
        kept = {name: region.body for name, region in lift(mended.text).items()}
        assert kept == {name: region.body for name, region in lift(text).items()}, file


# ---- notebooks and texts --------------------------------------------------------------------------------------------


def notebook(*cells: tuple[str, str], **extra: object) -> bytes:
    listed = [{"cell_type": kind, "source": source, "metadata": {}} for kind, source in cells]
    return json.dumps({"cells": listed, "nbformat": 4, "nbformat_minor": 5, "metadata": {}, **extra}).encode()


def test_answers_are_lifted_from_cells_of_every_kind_and_the_last_counts() -> None:
    data = notebook(
        ("code", "%%answer 6.1\nfirst"), ("markdown", "%%answer 6.2\nnow markdown"),
        ("code", "%%answer 6.1\nsecond\r\n"),
        ("code", "%%answer 6.3\n*Your answer, in one to five sentences.*"),
    )  # fmt: skip
    sheet = read_sheet("nb.ipynb", data)
    assert sheet.texts == {"6.1": "second", "6.2": "now markdown"}
    assert sheet.notes == [
        "nb.ipynb: the answer cell of 6.2 had become a markdown cell",
        "nb.ipynb: 6.1 is answered in two cells; the last one counts",
    ]


def test_halves_of_characters_in_a_notebook_are_replaced(tmp_path: Path) -> None:
    data = notebook(("code", "%%answer 6.1\nbroken HALF text")).replace(b"HALF", b"\\ud800")
    assert one(tmp_path, {"06_x.ipynb": data}).texts == {"6.1": "broken ? text"}


def test_notebooks_of_format_3_and_lists_of_lines_are_read() -> None:
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["%%answer 6.1\n", "old but right"]}]}]}
    assert read_sheet("old.ipynb", json.dumps(old).encode()).texts == {"6.1": "old but right"}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"cells": 1}', b"\0\0\0", b"[" * 100_000])
def test_a_notebook_that_is_none_says_so(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"nb\.ipynb"):
        read_sheet("nb.ipynb", data)


@pytest.mark.parametrize(
    ("cells", "name"),
    [
        ([("code", 'from x import start; start("06")')], "Untitled.ipynb"),
        ([("code", 'check("6.4")')], "copy (3).ipynb"),
        ([], "06_inline_questions.ipynb"),
    ],
)
def test_a_renamed_notebook_is_known_by_what_is_in_it(cells: list, name: str) -> None:
    assert read_sheet(name, notebook(*cells)).number == "06"


def test_where_file_and_cell_differ_the_grader_sees_both(tmp_path: Path, stubs: dict[str, str]) -> None:
    files = {
        "cs_transformers/cache.py": stubs["cache.py"].encode(),
        "answers/6.1.md": b"\xef\xbb\xbfthe file\r\n",
        "answers/6.2.md": b"the same",
        "answers/6.3.md": b"*Your answer, in one to five sentences.*\n",
        "answers/99.9.md": b"no such question",
        "06.ipynb": notebook(("code", "%%answer 6.1\nthe cell"), ("code", "%%answer 6.2\nthe same")),
    }
    taken = one(tmp_path, files)
    assert taken.texts["6.1"].startswith("the file")
    assert taken.texts["6.1"].endswith("the cell")
    assert taken.texts["6.2"] == "the same"
    assert sorted(taken.texts) == ["6.1", "6.2"]
    assert any("6.1: answers/6.1.md and 06.ipynb differ; graders see both" in note for note in taken.repairs)


def test_a_broken_notebook_costs_nothing_else(tmp_path: Path, stubs: dict[str, str]) -> None:
    files = {"cs_transformers/cache.py": stubs["cache.py"].encode(), "06.ipynb": b'{"cells": [', "x.ipynb": notebook()}
    taken = one(tmp_path, files)
    assert not taken.problem
    assert any("06.ipynb: is no notebook" in note for note in taken.repairs)
    assert any("x.ipynb: no notebook of the course" in note for note in taken.changes)


def test_texts_alone_can_be_graded(tmp_path: Path) -> None:
    taken = one(tmp_path, {"answers/6.2.md": b"Locality."})
    assert (taken.problem, taken.texts) == ("", {"6.2": "Locality."})
