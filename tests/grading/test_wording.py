"""What a student may read of a graded run: no word that the answer has chosen, pictures small and where they help."""

from __future__ import annotations

import numpy as np

from cs_transformers.checks.client import Answer
from cs_transformers.checks.stages import examine
from cs_transformers.grading.wording import known_error, picture, plain_sentence, public_sentences, same_fault

KIND = {"values/x": "float64 tensor"}


def answered(array: np.ndarray | None = None, **fields: object) -> Answer:
    return Answer("answered", arrays={} if array is None else {"values/x": array}, **{"kinds": KIND, **fields})


def failed(line: int = 7, file: str = "attention.py", type: str = "ValueError") -> Answer:
    error = {"part": "values", "type": type, "bases": [type, "Exception"], "message": "m", "file": file, "line": line}
    return answered(errors=[error])


def test_the_sentence_of_a_graded_run_holds_no_word_of_the_answer() -> None:
    expected = Answer("answered", arrays={"values/x": np.zeros((2, 3))}, kinds={"values/x": "float64 tensor"})
    secret = "return self.proj(context)"
    told = []
    for answer in (
        Answer("answered", arrays={"values/x": np.zeros((2, 3))}, kinds={"values/x": secret}),
        Answer("answered", texts={"values/x": secret}, kinds={"values/x": secret}),
        Answer("answered", arrays={"values/x": np.zeros((1,) * 9)}, kinds={"values/x": "float64 tensor"}),
        Answer("answered", errors=[{"part": "values", "type": secret, "bases": [secret, "ValueError", "Exception"],
                                    "message": secret, "file": secret, "line": 7}]),
        Answer("answered", errors=[{"part": "values", "type": secret, "bases": [secret], "message": secret,
                                    "file": "attention.py", "line": 12_345_678}]),
    ):  # fmt: skip
        finding = examine("values", expected, answer)
        told.append(plain_sentence(finding, expected, answer, {"attention.py": ""}))
        assert picture(finding, expected, answer) == {}
    assert not [sentence for sentence in told if secret in sentence or "12345678" in sentence]
    assert told[0] == "values: dtype of x: expected float64 tensor, got something else"
    assert told[3] == "values: it ends with ValueError"
    assert told[4] == "values: it ends with an exception of its own"


def test_pictures_are_windows_of_twelve_around_the_first_difference() -> None:
    right = np.arange(2 * 30 * 40, dtype=float).reshape(2, 30, 40)
    got = right.copy()
    got[1, 20, 25], got[1, 20, 26] = 0.5, np.nan
    kinds = {"values/x": "float64 tensor"}
    expected, answer = (Answer("answered", arrays={"values/x": array}, kinds=kinds) for array in (right, got))
    shown = picture(examine("values", expected, answer), expected, answer)
    assert shown["label"] == "values: x [1]"
    assert shown["starts"] == [9, 14]
    assert np.shape(shown["expected"]) == np.shape(shown["got"]) == (12, 12)
    assert shown["got"][11][11] == 0.5
    assert shown["expected"][11][11] == float(f"{right[1, 20, 25]:.4g}")


def test_no_picture_of_what_has_no_entry_to_point_at() -> None:
    for right, got in ((np.zeros((2, 3)), np.zeros((3, 2))), (np.asarray(1.0), np.asarray(2.0))):
        expected, answer = answered(right), answered(got)
        assert picture(examine("values", expected, answer), expected, answer) == {}


def test_a_row_of_numbers_is_a_picture_of_one_row() -> None:
    expected, answer = answered(np.arange(3.0)), answered(np.asarray([0.0, 5.0, 2.0]))
    shown = picture(examine("values", expected, answer), expected, answer)
    assert (shown["expected"], shown["got"]) == ([[0.0, 1.0, 2.0]], [[0.0, 5.0, 2.0]])


def test_the_first_number_that_differs_is_told_with_four_digits() -> None:
    expected, answer = answered(np.zeros((2, 3))), answered(np.full((2, 3), 1234.56789))
    finding = examine("values", expected, answer)
    assert plain_sentence(finding, expected, answer, {}) == (
        "values: x[0, 0] is the first to differ: expected 0, got 1235"
    )
    huge = answered(np.full((2, 3), 10**18))
    assert plain_sentence(examine("values", expected, huge), expected, huge, {}).endswith("got another number")


def test_errors_are_told_by_the_nearest_name_that_python_has() -> None:
    assert known_error({"bases": ["Odd", "KeyError", "LookupError", "Exception", "BaseException"]}) == "KeyError"
    assert known_error({"bases": ["print", "open"]}) == "an exception of its own"


def test_two_runs_fail_alike_only_with_the_same_numbers_or_the_same_error_at_the_same_place() -> None:
    right = answered(np.zeros(3))

    def alike(one: Answer, other: Answer) -> bool:
        return same_fault(examine("values", right, one), examine("values", right, other), one, other)

    assert alike(answered(np.ones(3)), answered(np.ones(3)))
    assert not alike(answered(np.ones(3)), answered(2 * np.ones(3)))
    assert not alike(answered(np.ones(3)), answered(np.ones(4)))
    assert alike(answered(np.ones(4)), answered(np.ones(4)))
    assert alike(failed(), failed())
    assert not alike(failed(), failed(line=8))
    assert not alike(failed(), failed(type="KeyError"))
    assert not alike(failed(), answered(np.ones(3)))


def test_a_run_without_secrets_is_told_in_full_with_advice() -> None:
    expected, answer = answered(np.zeros(3)), answered(np.ones(3))
    sentences = public_sentences(examine("values", expected, answer))
    assert sentences[0] == "values: x[0] is the first to differ: expected 0, got 1"
    assert sentences[1].startswith("values: the shape is right")
    assert public_sentences(examine("values", expected, failed())) == ["values: ValueError: m (attention.py, line 7)"]
