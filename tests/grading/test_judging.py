"""The judge: full points for solutions, none for stubs, a mistake costs its own exercise alone and is named."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from cs_transformers.checks import EXERCISES, client, references, tree
from cs_transformers.checks.markers import Region, find_regions, indented, stub_line
from cs_transformers.checks.refresh import Mistake, mistakes_of, reference_answers, with_mistake
from cs_transformers.checks.registry import closure
from cs_transformers.checks.tree import Answers
from cs_transformers.grading import judging, sandbox
from cs_transformers.grading.judging import HARD_CODED, Judge, exercises, trains
from cs_transformers.grading.model import Person, Submission
from cs_transformers.grading.running import GradedRunner
from cs_transformers.grading.sandbox import SandboxError

SOLVED = reference_answers()
CODED = [id for id, one in EXERCISES.items() if one.parts]
TRAINED = [id for id in CODED if trains(id)]
SAMPLE = ("1.2", "2.1", "3.2", "4.4", "5.1", "6.5")
RIGHT = "return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])\n"
WRONG = "return query @ key.transpose(-2, -1)\n"


def marks_of(id: str) -> list[pytest.MarkDecorator]:
    return [] if id in SAMPLE else [pytest.mark.slow]


MISTAKES = [
    pytest.param(id, one, id=f"{id}-{one.name}", marks=marks_of(id) if not index else [pytest.mark.slow])
    for id in CODED
    for index, one in enumerate(mistakes_of(id))
]


def handed_in(answers: Answers, **fields: object) -> Submission:
    return Submission(Person("ada", "Ada"), 1, "ada.zip", "digest of ada", answers, **fields)


def solved(**bodies: str) -> Answers:
    """The solutions with some bodies of attention.py replaced."""
    regions = dict(SOLVED.regions["attention.py"])
    for name, body in bodies.items():
        place = regions[name]
        regions[name] = replace(place, body=indented(body, place.indent))
    return Answers({**SOLVED.regions, "attention.py": regions})


def stubs() -> Answers:
    regions = {}
    for file, found in SOLVED.regions.items():
        regions[file] = {name: replace(one, body=f"{one.indent}{stub_line(name)}\n") for name, one in found.items()}
    return Answers(regions)


# ---- all and nothing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [pytest.param(id, marks=marks_of(id)) for id in CODED])
def test_the_solution_earns_every_automatic_point(id: str, judge: Judge) -> None:
    record = judge.grade(handed_in(SOLVED), id)
    assert (record.state, record.points) == ("passed", sum(EXERCISES[id].parts.values())), record
    assert record.points == record.out_of > 0
    assert all(record.parts.values())
    assert not record.lines
    assert not record.diagnosis
    assert not record.picture
    assert not record.incident
    assert record.tier == judge.sandbox.tier


@pytest.mark.parametrize("answers", [stubs(), Answers()], ids=["stubs", "no file at all"])
def test_stubs_earn_nothing_and_are_not_attempted(answers: Answers, judge: Judge) -> None:
    records = [judge.grade(handed_in(answers), id) for id in exercises()]
    assert {record.state for record in records} == {"not attempted"}
    assert sum(record.points for record in records) == 0
    assert sum(record.out_of for record in records) == sum(sum(one.parts.values()) for one in EXERCISES.values())


@pytest.mark.parametrize(("id", "mistake"), MISTAKES)
def test_a_mistake_loses_its_own_exercise_and_is_named(id: str, mistake: Mistake, judge: Judge) -> None:
    record = judge.grade(handed_in(with_mistake(SOLVED, EXERCISES[id].file, mistake)), id)
    assert record.state in ("wrong", "partly"), record
    assert record.points < record.out_of
    assert record.diagnosis == (mistake.diagnosis,)
    assert record.lines == (mistake.diagnosis,)


def dependents(id: str) -> list[str]:
    return [other for other in CODED if id in closure(other)[:-1] and not trains(other)]


@pytest.mark.parametrize(
    "id", [pytest.param(id, marks=[] if id == "1.5" else [pytest.mark.slow]) for id in CODED if dependents(id)]
)
def test_a_mistake_costs_nothing_in_the_exercises_that_need_it(id: str, judge: Judge) -> None:
    wrong = handed_in(with_mistake(SOLVED, EXERCISES[id].file, mistakes_of(id)[0]))
    records = [judge.grade(wrong, other) for other in dependents(id)[: 4 if id == "1.5" else None]]
    assert records
    assert {record.state for record in records} == {"passed"}


# ---- trees ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", CODED)
def test_no_solution_of_the_exercise_or_of_a_later_one_is_in_the_graded_tree(
    id: str, judge: Judge, tmp_path: Path
) -> None:
    order = list(EXERCISES)
    root = tree.rebuild(tmp_path, judge.sources, judge._spliced(stubs(), [id], EXERCISES[id]))
    earlier = {*order[: order.index(id)], *closure(id)} - {id}
    for file, regions in SOLVED.regions.items():
        for region in find_regions((root / "cs_transformers" / file).read_text(encoding="utf-8"), file):
            if region.exercise not in earlier and region.name in regions and region.name != "helpers":
                assert region.body.strip() == stub_line(region.name), region.name


def test_a_later_exercise_stands_as_the_student_wrote_it(judge: Judge) -> None:
    mine = solved(**{"1.2": "return 'mine'\n", "1.1": "return 'mine, too'\n"})
    spliced = judge._spliced(mine, ["1.1"], EXERCISES["1.1"])
    assert "mine" in spliced.regions["attention.py"]["1.2"].body
    assert "1.1" not in judge._spliced(mine, ["1.2"], EXERCISES["1.2"]).regions["attention.py"], "the solution stands"


def test_a_recipe_trains_on_the_mended_tree_and_a_mistake_in_it_does_not_cost_twice(judge: Judge) -> None:
    answers = solved(**{"1.1": WRONG, "1.3": SOLVED.regions["attention.py"]["1.3"].body})
    mended = judge.mended(handed_in(answers), ["1.1"])
    assert mended.regions["attention.py"]["1.1"].body == indented(WRONG, "    ")
    assert "1.3" not in mended.regions["attention.py"], "the solution stands"
    assert judge._graded.answer(EXERCISES["1.3"], mended, 7)[0].state == "answered"
    assert judge.grade(handed_in(answers), "1.3", passed=["1.1"]).state == "passed"


@pytest.mark.learning
@pytest.mark.parametrize("id", ["4.6", "5.4"])
def test_a_recipe_is_judged_by_its_weights_with_the_solutions_model(id: str, judge: Judge) -> None:
    needed = [one for one in closure(id) if one != id]
    assert judge.grade(handed_in(SOLVED), id, passed=needed).state == "passed"
    idle = mistakes_of(id)[-1]
    record = judge.grade(handed_in(with_mistake(SOLVED, EXERCISES[id].file, idle)), id, passed=needed)
    assert (record.state, record.points, record.diagnosis) == ("wrong", 0, (idle.diagnosis,))


@pytest.mark.parametrize("weights", ["[]", "[w[:1] for w in model.parameters()]"])
def test_weights_that_fit_no_model_earn_nothing(weights: str, judge: Judge) -> None:
    place = SOLVED.regions["training/recipes.py"]["4.6"]
    body = (
        "import torch.nn as nn\nfor name, part in list(model.named_children()):\n    delattr(model, name)\n"
        f"model.odd = nn.ParameterList({weights})\nreturn [0.0]\n"
    )
    answers = Answers(
        {**SOLVED.regions, "training/recipes.py": {"4.6": replace(place, body=indented(body, place.indent))}}
    )
    record = judge.grade(handed_in(answers), "4.6")
    assert (record.state, record.points) == ("wrong", 0)


# ---- what a student reads -------------------------------------------------------------------------------------------


def test_an_unknown_mistake_is_shown_with_numbers_and_a_picture_of_the_visible_check(judge: Judge) -> None:
    if not judge.sandbox.isolates("files"):
        pytest.skip(f"the tier {judge.sandbox.tier} does not isolate files: nothing of a run is shown")
    record = judge.grade(handed_in(solved(**{"1.1": "return query @ key.transpose(-2, -1) / 2.2\n"})), "1.1")
    stored = references.load("1.1").expected.arrays["values/scores of K keys"]
    assert record.lines[0].startswith("values: scores of K keys[0, 0, 0, 0] is the first to differ: expected ")
    assert record.picture["label"] == "values: scores of K keys [0, 0]"
    np.testing.assert_allclose(record.picture["expected"], stored[0, 0][:12, :12], rtol=1e-3)
    assert np.shape(record.picture["got"]) == np.shape(record.picture["expected"])
    assert record.picture["got"] != record.picture["expected"]


def test_a_main_fault_that_nobody_knows_is_told_before_a_known_one(judge: Judge) -> None:
    body = "return torch.ones((target_length, source_length), dtype=torch.bool).tril(diagonal=2)\n"
    record = judge.grade(handed_in(solved(**{"1.4": body})), "1.4")
    cpu = next(mistake.diagnosis for mistake in mistakes_of("1.4") if mistake.name == "always_on_the_cpu")
    assert (record.points, record.diagnosis) == (0, (cpu,))
    assert record.lines[0].startswith("values: ")
    assert record.lines[-1] == cpu


def test_an_error_is_told_with_its_message_and_place_in_the_students_file(judge: Judge) -> None:
    if not judge.sandbox.isolates("files"):
        pytest.skip(f"the tier {judge.sandbox.tier} does not isolate files: nothing of a run is shown")
    record = judge.grade(handed_in(solved(**{"1.1": "scale = 2\nreturn query @ key.transposed(1)\n"})), "1.1")
    line = SOLVED.regions["attention.py"]["1.1"].first + 2
    assert record.lines == (
        f"values: AttributeError: 'Tensor' object has no attribute 'transposed' (attention.py, line {line})",
    )


def test_where_what_it_needs_is_missing_the_place_is_told_in_our_words(judge: Judge) -> None:
    region = SOLVED.regions["attention.py"]["1.3"]
    body = indented("attention_scores(query, key)\nraise ValueError('a message')\n", region.indent)
    alone = Answers({"attention.py": {"1.3": replace(region, body=body)}})
    record = judge.grade(handed_in(alone), "1.3")
    assert record.lines == (f"values: it ends with ValueError (attention.py, line {region.first + 2})",)


def test_numbers_that_a_mistake_elsewhere_has_changed_are_not_shown(judge: Judge) -> None:
    body = (
        "weights = attention_weights(attention_scores(query, key), mask)\nout = 2.5 * weights @ value\n"
        "return (out, weights) if need_weights else out\n"
    )
    alone = judge.grade(handed_in(solved(**{"1.3": body})), "1.3")
    assert alone.state == "wrong"
    if judge.sandbox.isolates("files"):
        assert alone.picture
    record = judge.grade(handed_in(solved(**{"1.1": WRONG, "1.3": body})), "1.3")
    assert not record.picture
    assert record.lines[0].startswith("values: out[0, 0, 0, 0] is the first to differ: expected ")


def test_an_answer_to_the_visible_inputs_alone_is_wrong_and_told_so(judge: Judge) -> None:
    body = (
        "import inspect\nframes = [one.frame.f_locals for one in inspect.stack()]\n"
        "seeds = [names['probe'].seed for names in frames if 'probe' in names]\n"
        f"scale = 1 if seeds[0] == {references.SEED} else 3\n"
        "return query @ key.transpose(-2, -1) / (scale * math.sqrt(query.shape[-1]))\n"
    )
    record = judge.grade(handed_in(solved(**{"1.1": body})), "1.1")
    assert (record.state, record.points) == ("wrong", 0)
    if judge.sandbox.isolates("files"):
        assert record.lines == (HARD_CODED,)


# ---- states ---------------------------------------------------------------------------------------------------------


def test_text_decides_where_nothing_need_run(judge: Judge) -> None:
    empty = handed_in(Answers())
    assert judge.grade(empty, "1.1").lines == ("attention.py was not handed in",)
    assert judge.grade(handed_in(Answers(), problem="it is no zip"), "1.1").lines == ("it is no zip",)
    lost = dict(SOLVED.regions["attention.py"])
    del lost["1.1"]
    record = judge.grade(handed_in(Answers({"attention.py": lost})), "1.1")
    assert (record.state, record.lines) == (
        "wrong", ("attention.py: the region of exercise 1.1 is missing; restore its marker lines",),
    )  # fmt: skip
    broken = Answers(SOLVED.regions, {("attention.py", "1.1"): (12, "not valid Python ('(' was never closed)")})
    assert judge.grade(handed_in(broken), "1.1").lines == (
        "attention.py, line 12: not valid Python ('(' was never closed)",
    )
    assert judge.grade(handed_in(broken), "1.4").state == "passed", "and costs its own exercise alone"
    body = "from torch.nn.functional import scaled_dot_product_attention as f\nreturn f(query, key, value)\n"
    assert judge.grade(handed_in(solved(**{"1.3": body})), "1.3").state == "forbidden call"


def test_a_forbidden_call_that_no_text_shows_is_caught(judge: Judge) -> None:
    body = "name = 'scaled_dot' + '_product_attention'\nreturn vars(F)[name](query, key, value)\n"
    record = judge.grade(handed_in(solved(**{"1.3": body})), "1.3")
    assert (record.state, record.points) == ("forbidden call", 0)


def test_texts_await_review_or_are_not_attempted(judge: Judge) -> None:
    assert judge.grade(handed_in(Answers()), "6.2").state == "not attempted"
    record = judge.grade(handed_in(Answers(), texts={"6.2": "Locality."}), "6.2")
    assert (record.state, record.points, record.out_of, record.review) == ("awaiting review", 0, 0, 4)


def test_helpers_that_do_not_import_are_left_out_and_reported(judge: Judge) -> None:
    record = judge.grade(handed_in(solved(helpers="import a_module_that_nobody_has\n", **{"1.1": RIGHT})), "1.1")
    assert record.state == "passed"
    assert record.lines == ("attention.py: your helpers region could not be imported and was left out",)


def test_half_an_answer_earns_its_half(judge: Judge) -> None:
    stub = stub_line("1.5 split_heads") + "\n"
    record = judge.grade(handed_in(solved(**{"1.5 split_heads": stub})), "1.5")
    assert (record.state, record.points) == ("partly", 1)
    assert record.lines


def test_output_of_a_right_answer_costs_nothing_and_is_in_no_record(judge: Judge) -> None:
    record = judge.grade(handed_in(solved(**{"1.1": "import sys\nprint('noise', file=sys.stderr)\n" + RIGHT})), "1.1")
    assert record.state == "passed"
    assert "noise" not in str(asdict(record))


# ---- the run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [b"", "text", None])
def test_a_key_is_some_bytes(key: object) -> None:
    with pytest.raises(ValueError, match="Judge: expected a key of some bytes"):
        Judge(key=key)


def test_seeds_come_from_the_key_and_the_exercise(judge: Judge) -> None:
    seeds = [judge.seed(id) for id in CODED]
    assert len(set(seeds)) == len(seeds)
    assert all(0 < seed < 2**31 for seed in seeds)
    assert references.SEED not in seeds
    other = object.__new__(Judge)
    other.key = b"another key"
    assert not set(seeds) & {other.seed(id) for id in CODED}


def test_the_digest_of_a_record_names_submission_grader_and_exercise(judge: Judge) -> None:
    ada = handed_in(Answers())
    digests = {judge.digest(ada, "1.1"), judge.digest(ada, "1.2"), judge.digest(replace(ada, digest="other"), "1.1")}
    assert len(digests) == 3
    assert judge.grade(ada, "1.1").digest == judge.digest(ada, "1.1")
    other = object.__new__(Judge)
    other.__dict__ |= {**judge.__dict__, "key": b"another key"}
    assert other._digest_of_grader() not in (judge.grader_digest, judge._digest_of_grader())


def test_exercises_come_in_the_order_of_the_course_and_unknown_ones_are_refused() -> None:
    assert exercises() == list(EXERCISES)
    assert exercises(["4.1", "1.6"]) == ["1.6", "4.1"]
    with pytest.raises(ValueError, match="expected an exercise such as"):
        exercises(["99.1"])


def test_threads_may_share_a_judge(judge: Judge) -> None:
    found: dict[int, list[tuple]] = {}

    def grade(number: int) -> None:
        wrong = handed_in(solved(**{"1.1": f"return query @ key.transpose(-2, -1) / {number + 2}\n"}))
        found[number] = [
            (record.state, record.points) for record in (judge.grade(wrong, "1.1"), judge.grade(wrong, "1.4"))
        ]

    threads = [threading.Thread(target=grade, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [("wrong", 0), ("passed", 2)] for number in range(3)}


def test_a_zygote_that_was_ended_from_outside_is_replaced(judge: Judge) -> None:
    judge.sandbox._worker._process._popen.kill()
    assert judge.grade(handed_in(SOLVED), "1.1").state == "passed"


def test_a_sandbox_that_does_not_start_is_nobodys_mistake(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.sandbox._worker.close()
    broken = tmp_path / "worker.py"
    broken.write_text("raise SystemExit('no torch here')", encoding="utf-8")
    monkeypatch.setattr(client, "WORKER", broken)
    with pytest.raises(SandboxError, match=r"the sandbox does not start: .*no torch here"):
        judge.grade(handed_in(SOLVED), "1.1")
    monkeypatch.undo()
    assert judge.grade(handed_in(SOLVED), "1.1").state == "passed"


def test_a_solution_that_does_not_answer_stops_the_run(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_expected", {})
    monkeypatch.setitem(
        judge.sources, "positional.py", judge.sources["positional.py"].replace("torch.arange", "torch.no_such")
    )
    with pytest.raises(SandboxError, match=r"exercise 2\.1: the solution does not answer"):
        judge.expected("2.1")


def test_the_solutions_and_the_answers_never_share_a_process(judge: Judge) -> None:
    judge.expected("1.1")
    judge.grade(handed_in(SOLVED), "1.1")
    assert judge._worker is not judge.sandbox._worker
    assert judge._worker._process._popen.pid != judge.sandbox._worker._process._popen.pid
    assert judge._graded.trusted is judge._worker
    assert judging.Sandbox is sandbox.Sandbox


def test_a_runner_without_solutions_to_score_with_is_refused(judge: Judge) -> None:
    for missing in ({"scoring": Answers()}, {"trusted": judge._worker}):
        with pytest.raises(ValueError, match="GradedRunner: expected a worker and answers that score"):
            GradedRunner(judge.package, worker=judge.sandbox, **missing)


@pytest.mark.slow
def test_the_solution_has_full_marks_thirty_times_on_a_busy_machine(judge: Judge) -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        records = [judge.grade(handed_in(SOLVED), "1.6") for _ in range(30)]
    finally:
        for one in busy:
            one.kill()
            one.wait()
    assert [record.points for record in records] == [EXERCISES["1.6"].points] * 30


def test_regions_of_the_solutions_are_whole() -> None:
    assert all(isinstance(region, Region) for regions in SOLVED.regions.values() for region in regions.values())
