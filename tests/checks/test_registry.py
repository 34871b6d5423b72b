"""The registry: ids, points, needs, regions, hints and mistakes fit together."""

from __future__ import annotations

import re

import pytest

from cs_transformers.checks import EXERCISES, NOTEBOOKS, exercise
from cs_transformers.checks.front import hints_of
from cs_transformers.checks.refresh import mistakes_of
from cs_transformers.checks.registry import closure, definitions_of
from cs_transformers.checks.stages import STAGES, stage_of
from cs_transformers.checks.tree import Answers

CORE_POINTS = {"01": 24, "02": 9, "03": 13, "04": 19, "05": 16, "06": 19}
POINTS = {
    "1.1": 3, "1.2": 4, "1.3": 2, "1.4": 2, "1.5": 3, "1.6": 4, "1.7": 2, "1.8": 4,
    "2.1": 4, "2.2": 2, "2.3": 3,
    "3.1": 1, "3.2": 4, "3.3": 4, "3.4": 3, "3.5": 1,
    "4.1": 5, "4.2": 3, "4.3": 2, "4.4": 4, "4.5": 3, "4.6": 2,
    "5.1": 4, "5.2": 3, "5.3": 3, "5.4": 2, "5.5": 4,
    "6.1": 5, "6.2": 4, "6.3": 3, "6.4": 3, "6.5": 4,
}  # fmt: skip
# What each exercise must recognise at the least, by file name.
LISTED = {
    "1.1": ["no_scale", "sqrt_embed_dim", "key_not_transposed"],
    "1.2": ["softmax_over_queries", "mask_inverted", "mask_added", "large_negative_number"],
    "1.3": ["dropout_on_scores", "dropout_after_mix", "dropped_weights_returned"],
    "1.4": ["upper", "diagonal_blocked", "always_on_the_cpu"],
    "1.5": ["split_without_transpose", "join_without_transpose", "heads_and_width_swapped"],
    "1.6": ["no_proj", "value_is_query", "mask_dropped"],
    "1.7": ["wrong_axis", "bias_lost", "order_reversed"],
    "1.8": ["no_row_term", "no_scale", "grad_key_not_transposed"],
    "2.1": ["sine_and_cosine_swapped", "k_for_2k", "halves"],
    "2.2": ["no_slice", "batch_axis_sliced", "dropout_before_the_sum"],
    "2.3": ["sign", "pairs_of_halves", "one_angle_for_all"],
    "3.1": ["no_activation", "relu", "dropout_after_fc2"],
    "3.2": ["pre_norm", "no_residual", "mask_dropped"],
    "3.3": ["memory_as_query", "tgt_mask_in_cross_attention", "norms_swapped"],
    "3.4": ["norm_on_the_residual", "raw_input", "post_norm"],
    "3.5": ["same_layer", "shallow_copy", "one_too_many"],
    "4.1": ["no_mask", "mask_one_ahead", "no_positions"],
    "4.2": ["unshifted", "padding_counted", "mean_over_all_positions"],
    "4.3": ["position_restarts", "overwritten", "heads_axis"],
    "4.4": ["argmax_over_rows", "past_the_end", "emits_start"],
    "4.5": ["quotient_and_remainder_swapped", "probabilities_for_logs", "expands_finished"],
    "4.6": ["learning_rate_too_low", "never_steps", "zero_grad_misplaced"],
    "5.1": ["column_order", "channels_last", "no_permute"],
    "5.2": ["sum", "softmax", "no_positions"],
    "5.3": ["token_at_the_end", "positions_first", "mean_read"],
    "5.4": ["learning_rate_too_low", "labels_shuffled", "step_before_backward"],
    "5.5": ["shuffled_order", "training_accuracy", "unlabelled_not_normalised"],
    "6.1": ["sqrt_of_model_width", "standard_deviation"],
    "6.3": ["width_squared", "image_side_times_four", "patch_size_a_quarter"],
    "6.4": ["uniform_because_untrained"],
    "6.5": ["zeros_everywhere"],
    "7.1": ["src_inverted", "not_causal", "padded_rows_blocked"],
    "7.2": ["tgt_padded_by_src", "encoder_sees_padding", "no_tgt_mask"],
    "7.3": ["torchs_smoothing", "divided_by_v", "nothing_times_infinity"],
    "7.4": ["maximum", "warmup_to_the_half", "zero_at_the_start"],
    "7.5": ["plain_length", "not_divided", "upside_down"],
    "8.1": ["x_before_y", "padding_counted", "not_interleaved"],
    "8.2": ["plain_division", "no_clamp", "iou_alone"],
    "8.3": ["log_probability", "overlap_added", "boxes_not_converted"],
    "8.4": ["class_unweighted", "class_nothing_is_zero", "box_overlap_rewarded"],
    "8.5": ["height_for_width", "whole_box", "points_not_divided"],
    "9.1": ["unfold_channels_last", "unfold_column_order", "fold_without_permute"],
    "9.2": ["no_embedding", "always_the_first_task", "added_to_the_memory"],
    "9.3": ["natural_logarithm", "over_the_batch", "not_cut"],
    "9.4": ["not_normalised", "normalised_over_places", "index_over_queries"],
    "9.5": ["constant_nine", "padding_counted", "no_overlap"],
    "10.1": ["old_sums_not_rescaled", "rows_of_nan", "sum_of_dropped_weights"],
    "10.2": ["elu_without_one", "not_divided", "divided_by_the_number_of_keys"],
    "10.3": ["read_before_writing", "state_overwritten", "total_not_updated"],
    "10.4": ["only_reshaped", "everybody_sees_everybody", "mask_inverted"],
    "10.5": ["no_logarithms", "only_one_logarithm", "slope_upside_down"],
}  # fmt: skip


def test_the_core_is_worth_100_points_and_each_exercise_its_share() -> None:
    core = {id: one.points for id, one in EXERCISES.items() if one.notebook in CORE_POINTS}
    assert core == POINTS
    sums = {
        number: sum(points for id, points in core.items() if EXERCISES[id].notebook == number) for number in CORE_POINTS
    }
    assert sums == CORE_POINTS
    assert sum(core.values()) == 100


@pytest.mark.parametrize("id", EXERCISES)
def test_an_exercise_is_whole(id: str) -> None:
    one = EXERCISES[id]
    assert one.id == id
    assert one.notebook in NOTEBOOKS
    assert one.parts or one.rubric
    stages = [STAGES.index(stage_of(part)) for part in one.parts]
    assert stages == sorted(stages), "parts stand in the order of the stages"
    assert all(points >= 0 for points in one.parts.values())
    assert not one.parts or next(iter(one.parts.values())) > 0, "a part without points guards the one before it"
    assert 5 <= one.minutes <= 60


@pytest.mark.parametrize("id", EXERCISES)
def test_no_exercise_needs_a_later_one(id: str) -> None:
    order = list(EXERCISES)
    assert closure(id)[-1] == id
    for needed in closure(id)[:-1]:
        assert order.index(needed) < order.index(id), f"{id} needs {needed}"


def test_every_region_of_the_package_belongs_to_an_exercise_and_the_other_way_round(solved: Answers) -> None:
    marked = {(file, r.exercise) for file, regions in solved.regions.items() for r in regions.values()}
    listed = {(one.file, one.id) for one in EXERCISES.values() if one.file}
    assert {pair for pair in marked if pair[1] != "helpers"} == listed
    assert {file for file, name in marked if name == "helpers"} == {file for file, _ in listed}


def test_the_text_above_a_region_names_its_exercise(solved: Answers) -> None:
    from cs_transformers.checks.tree import PACKAGE

    for file, regions in solved.regions.items():
        text = (PACKAGE / file).read_text(encoding="utf-8")
        for region in regions.values():
            if region.name != "helpers":
                above = "\n".join(text.splitlines()[max(0, region.first - 8) : region.first])
                assert f"# Exercise {region.exercise}" in above, f"{file}: {region.name}"


@pytest.mark.parametrize("id", [id for id, one in EXERCISES.items() if one.parts])
def test_every_exercise_has_at_least_three_mistakes_and_all_that_are_listed(id: str) -> None:
    found = mistakes_of(id)
    assert len(found) >= 3
    assert set(LISTED[id]) <= {mistake.name for mistake in found}
    sentences = [mistake.diagnosis for mistake in found]
    assert len(set(sentences)) == len(sentences)
    for sentence in sentences:
        assert re.fullmatch(r"\S.{20,220}[.]", sentence), sentence


@pytest.mark.parametrize("id", EXERCISES)
def test_there_are_three_hints_for_every_exercise(id: str) -> None:
    steps = hints_of(id)
    assert len(steps) == 3
    assert all(30 < len(step) < 500 and step.endswith((".", "?")) for step in steps)
    assert len(set(steps)) == 3


def test_hints_stand_for_exercises_that_exist() -> None:
    from cs_transformers.checks.front import HINTS

    for path in HINTS.glob("*.md"):
        ids = re.findall(r"^## (\S+) (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert [id for id, _ in ids] == [
            id for id, one in EXERCISES.items() if NOTEBOOKS[one.notebook].name == path.stem
        ]
        assert all(EXERCISES[id].symbol == symbol for id, symbol in ids)


def test_an_unknown_exercise_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"expected an exercise such as 1\.1, 1\.2.*got '1\.99'; `cst check` lists"):
        exercise("1.99")
    with pytest.raises(ValueError, match=r"expected an exercise such as 1\.1"):
        exercise("nonsense")


def test_an_id_that_is_a_number_is_refused_since_1_10_would_be_1_1() -> None:
    with pytest.raises(TypeError, match=r'expected an id as text, got 1\.1; write it in quotes, check\("1\.1"\)'):
        exercise(1.1)


def test_definitions_exist_for_every_exercise_with_parts() -> None:
    from cs_transformers.checks.tree import PACKAGE

    for one in EXERCISES.values():
        text = (PACKAGE / "checks" / "definitions" / f"{definitions_of(one)}.py").read_text(encoding="utf-8")
        wanted = [one.id, one.scoring, one.inputs] if one.parts else []
        assert all(f'@check("{name}")' in text for name in wanted if name)
