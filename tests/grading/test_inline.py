from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from browser import chromium
from classroom_factory import HOSTILE, TEXTS, classroom, hostile_classroom
from page_reading import assert_harmless

from cs_transformers.checks import EXERCISES
from cs_transformers.grading import inline, marks
from cs_transformers.grading.inline import gather, nameless, split
from cs_transformers.grading.model import Classroom, Mark, Person
from cs_transformers.grading.pages import script_hash, script_source

WRITERS = [
    "ada",
    "bo",
    "cy",
    "gus",
    "hal",
    "ida",
    "joe@example.edu",
]  # flo's text is blank, dee's and eve's are not there


def unread() -> Classroom:
    found = classroom()
    found.students["ada"].marks = {}
    return found


def answers_in(path: Path) -> list[str]:
    return re.findall(r'data-answer="([0-9a-f]{16})"', path.read_text(encoding="utf-8"))


def test_every_answer_of_a_question_is_on_one_page(tmp_path: Path) -> None:
    *pages, index = inline.write(unread(), tmp_path, graders=3)
    assert [page.name for page in pages] == [
        f"{id}_grader{part}.html" for id in ("6.1", "6.2", "6.3") for part in (1, 2, 3)
    ]
    assert index.name == "index.html"
    for id in ("6.1", "6.2", "6.3"):
        parts = [answers_in(page) for page in pages if page.name.startswith(id)]
        every = [token for part in parts for token in part]
        assert sorted(every) == sorted(marks.answer_token(unread(), writer, id) for writer in WRITERS)
        assert sorted(map(len, parts)) == [2, 2, 3]


def test_pages_are_anonymous(tmp_path: Path) -> None:
    for page in inline.write(unread(), tmp_path):
        text = page.read_text(encoding="utf-8").lower()
        for student in unread().students.values():
            assert student.person.name.lower() not in text
            assert f'"{student.person.id}"' not in text
        assert unread().key not in text
    assert "[name]" in (tmp_path / "6.2_grader1.html").read_text(encoding="utf-8")


def test_the_order_tells_nothing_and_differs_from_question_to_question() -> None:
    found = unread()
    orders = []
    for id in ("6.1", "6.2", "6.3"):
        who = marks.tokens(found, id)
        orders.append([who[one.token] for one in gather(found, id)])
    assert orders[0] != WRITERS
    assert orders[0] != orders[1]
    found.key = "another run"
    who = marks.tokens(found, "6.1")
    assert [who[one.token] for one in gather(found, "6.1")] != orders[0]


def test_the_same_class_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = (inline.write(unread(), tmp_path / name, graders=2) for name in "ab")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_shared_answers_go_to_everybody() -> None:
    answers = gather(unread(), "6.2")
    parts = split(answers, 3, shared=2)
    assert all(part[:2] == answers[:2] for part in parts)
    assert sorted(one.token for part in parts for one in part[2:]) == sorted(one.token for one in answers[2:])


def test_marked_answers_are_left_out_unless_they_are_reviewed_again(tmp_path: Path) -> None:
    found = classroom()  # ada is marked
    assert len(answers_in(inline.write(found, tmp_path / "a")[1])) == 6
    assert len(answers_in(inline.write(found, tmp_path / "b", again=True)[1])) == 7


def test_what_was_copied_or_handed_in_twice_is_flagged() -> None:
    from cs_transformers.grading.reading import question

    found = unread()
    found.students["bo"].submission.texts["6.2"] = question("6.2")[10:500]
    for id in ("cy", "gus", "ida"):
        found.students[id].submission.texts["6.2"] = "The very same words."
    who = marks.tokens(found, "6.2")
    flags = {who[one.token]: one.flags for one in gather(found, "6.2")}
    assert flags["bo"] == ("copied from the question",)
    assert flags["cy"] == ("the same text as 2 others",)
    assert flags["ada"] == ()


def test_blank_answers_are_counted_and_not_given_to_graders(tmp_path: Path) -> None:
    text = assert_harmless(inline.write(unread(), tmp_path)[1].read_text(encoding="utf-8"), scripts=1).text
    assert "7 answers, 4 points each; 1 more wrote nothing" in text


def test_a_page_has_the_question_the_rubric_and_the_answers(tmp_path: Path) -> None:
    page = inline.write(unread(), tmp_path)[1].read_text(encoding="utf-8")
    text = assert_harmless(page, scripts=1).text
    assert "Why does a ViT need so many images?" in text
    assert "A CNN has its assumptions built in" in text
    for item in EXERCISES["6.2"].rubric:
        assert text.count(item) == len(WRITERS)
    assert text.count("Augmentation helps, and pretraining") == len(WRITERS)


def test_the_policy_of_a_page_allows_its_own_script_alone(tmp_path: Path) -> None:
    page = inline.write(unread(), tmp_path)[0].read_text(encoding="utf-8")
    assert f"script-src '{script_hash('review.js')}';" in page
    assert f"<script>{script_source('review.js')}</script>" in page


@pytest.mark.parametrize(("graders", "shared"), [(0, 0), (-1, 0), (1, -1)])
def test_impossible_numbers_are_refused(graders: int, shared: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inline: expected at least one grader"):
        inline.write(unread(), tmp_path, graders, shared=shared)


def test_nothing_to_review_says_so(tmp_path: Path) -> None:
    (index,) = inline.write(Classroom(["1.1"]), tmp_path)
    assert "No answer waits for a review." in index.read_text(encoding="utf-8")


def test_names_are_taken_out_of_answers() -> None:
    person = Person("ab123456", "Mina Max")
    assert nameless("Mina  Max, mina\nmax (AB123456)", person) == "[name], [name] ([name])"
    assert nameless("max pooling; ab1234567; Minamax", person) == "max pooling; ab1234567; Minamax"
    assert nameless("a max of", Person("x", "Max")) == "a max of", "a short name may be a word of the answer"


def test_disputed_answers_have_a_page_of_their_own(tmp_path: Path) -> None:
    found = unread()
    given = [
        marks.Saved(Mark("bo", "6.2", points, (), f"I say {points}", grader), "")
        for points, grader in ((1.0, "Tina"), (4.0, "Udo"))
    ]
    page, _ = inline.write(found, tmp_path, 3, disputes=marks.disputed(given, found))
    assert page.name == "6.2_settle.html"
    assert answers_in(page) == [marks.answer_token(found, "bo", "6.2")]
    text = assert_harmless(page.read_text(encoding="utf-8"), scripts=1).text
    assert "Tina gave 1: I say 1.0" in text
    assert "Udo gave 4: I say 4.0" in text
    assert '"settles": true' in page.read_text(encoding="utf-8")


def test_hostile_answers_are_inert_on_every_page(tmp_path: Path) -> None:
    for path in inline.write(hostile_classroom(), tmp_path, 2, again=True):
        page = path.read_text(encoding="utf-8")
        assert_harmless(page, scripts=path.name != "index.html")
        assert not re.search("[\x00\x1b\u202e]", page)
        assert len(page) < 40_000 * len(HOSTILE)


def test_a_grader_clicks_and_saves_and_the_marks_arrive(tmp_path: Path) -> None:
    found, downloads = unread(), tmp_path / "downloads"
    downloads.mkdir()
    page = inline.write(found, tmp_path)[1]
    with chromium(downloads) as browser:
        browser.open(page)
        assert browser.run("document.getElementById('progress').textContent") == "0 of 7 marked"
        browser.run("document.getElementById('save').click()")
        assert "Write your name first" in browser.run("document.getElementById('status').textContent")
        browser.run(DRIVE)
        assert browser.run("document.getElementById('progress').textContent") == "3 of 7 marked"
        browser.run("type(cards[3].querySelector('.points'), '9'); document.getElementById('save').click()")
        assert "outside 0 to 4" in browser.run("document.getElementById('status').textContent")
        browser.run("type(cards[3].querySelector('.points'), ''); document.getElementById('save').click()")
        saved = arrived(downloads)
        browser.open(page)  # a reload finds the work again
        assert browser.run("document.getElementById('progress').textContent") == "3 of 7 marked"
        assert browser.run("document.querySelector('textarea').value") == 'Clear, "short" <b>& good</b>'
        assert browser.messages == []
        assert [url for url in browser.requests if not url.startswith(("file:", "blob:"))] == []
    assert saved.name.startswith("6.2_Tina-Grün_")
    given, problems = marks.merge([saved], found)
    tokens = answers_in(page)
    by_answer = {marks.answer_token(found, mark.student, "6.2"): mark for mark in given}
    causes, techniques = EXERCISES["6.2"].rubric
    assert problems == []
    assert [(by_answer[t].points, by_answer[t].items) for t in tokens[:3]] == [
        (4, (causes, techniques)),
        (1.5, (causes,)),
        (0, ()),
    ]
    assert by_answer[tokens[0]].comment == 'Clear, "short" <b>& good</b>'
    assert {mark.grader for mark in given} == {"Tina Grün"}
    assert len(given) == 3


DRIVE = """
var cards = [...document.querySelectorAll('.answer')];
function type(field, text) { field.value = text; field.dispatchEvent(new Event('input', { bubbles: true })); }
type(document.getElementById('grader'), ' Tina Grün ');
cards[0].focus();
for (const key of ['1', '2']) document.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
type(cards[0].querySelector('textarea'), 'Clear, "short" <b>& good</b>');
cards[1].querySelectorAll('.item')[0].click();
cards[1].querySelectorAll('.item')[1].click();
cards[1].querySelectorAll('.item')[1].click();
type(cards[1].querySelector('.points'), '1.5');
cards[2].querySelectorAll('.item')[0].click();
cards[2].querySelector('.zero').click();
"""


def arrived(folder: Path) -> Path:
    for _ in range(200):
        found = [path for path in folder.glob("*.json") if path.stat().st_size]
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"nothing was saved in {folder}")


def test_a_saved_file_is_taken_up_again_and_foreign_files_are_not(tmp_path: Path) -> None:
    found = unread()
    page = inline.write(found, tmp_path)[1]
    first = answers_in(page)[0]
    entry = {"answer": first, "points": 3, "items": [next(iter(EXERCISES["6.2"].rubric))], "comment": "so"}
    good = {
        "format": marks.FORMAT,
        "exercise": "6.2",
        "grader": "Udo",
        "marks": [entry, {"answer": "f" * 16, "points": 1}],
    }
    load = """
    (async () => {
      const input = document.getElementById('load'), data = new DataTransfer();
      data.items.add(new File([%s], 'x.json'));
      input.files = data.files; input.dispatchEvent(new Event('change'));
      await new Promise((resolve) => setTimeout(resolve, 200));
      return document.getElementById('status').textContent + '|' + document.getElementById('progress').textContent;
    })()"""
    with chromium() as browser:
        browser.open(page)
        assert browser.run(load % json.dumps("{}")) == "This is no file saved by a page of this question.|0 of 7 marked"
        assert browser.run(load % json.dumps(json.dumps(good))) == "Loaded 1 marks from x.json.|1 of 7 marked"
        assert browser.run("document.querySelectorAll('.item[aria-pressed=true]').length") == 1
        browser.run("document.getElementById('open').click()")
        assert browser.run("[...document.querySelectorAll('.answer')].filter((one) => !one.hidden).length") in (6, 7)
        assert browser.messages == []


def test_no_hostile_page_acts_in_a_browser(tmp_path: Path) -> None:
    from cs_transformers.grading import feedback, report

    found = hostile_classroom()
    pages = [
        *inline.write(found, tmp_path, 1, again=True),
        report.write(found, tmp_path),
        *feedback.write(found, tmp_path)[:-1],
    ]
    with chromium() as browser:
        for page in pages:
            browser.open(page)
            browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert browser.messages == []
        assert [url for url in browser.requests if not url.startswith("file:")] == []


def test_the_texts_of_these_tests_are_what_students_write() -> None:
    assert all(inline.oddities(id, text) == [] for id, text in TEXTS.items())
