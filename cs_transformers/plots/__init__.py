"""Pictures of the course: attention maps, positions, masks, curves, captions, patches."""

from cs_transformers.plots.attention import (
    attention_maps,
    colour_lookup,
    mask_conventions,
    mask_pictures,
    numbered_grids,
    stacked_weights,
    step_size_errors,
    weight_profiles,
)
from cs_transformers.plots.blocks import activation_curves, block_diagrams, depth_curves, influence_maps
from cs_transformers.plots.captions import (
    cache_pictures,
    caption_grid,
    shifted_pair,
    word_attention,
    word_tree,
)
from cs_transformers.plots.curves import loss_curve, training_curves
from cs_transformers.plots.detection import (
    found_objects,
    matching,
    overlap_curves,
    query_attention,
    query_specialities,
    sampling_points,
)
from cs_transformers.plots.diagrams import captioner_diagram, translator_diagram
from cs_transformers.plots.efficient import (
    accuracy_and_cost,
    cost_curves,
    error_curves,
    softmax_in_blocks,
    square_maps,
    window_grids,
)
from cs_transformers.plots.images import (
    confusion_grid,
    image_grid,
    lucky_choice,
    patch_attention,
    patch_cut,
    patch_vector,
    position_similarity,
)
from cs_transformers.plots.positions import (
    distance_curves,
    grid_positions,
    position_table,
    rotated_pairs,
    score_grids,
    sinusoid_columns,
)
from cs_transformers.plots.questions import grouped_bars, learning_by_images, score_spread
from cs_transformers.plots.restoration import overlap_counts, reference_arrows, restoration_grid, signed_maps
from cs_transformers.plots.style import use_style
from cs_transformers.plots.translation import alignment_map, named_curves, wanted_bars, word_masks

__all__ = [
    "accuracy_and_cost",
    "activation_curves",
    "alignment_map",
    "attention_maps",
    "block_diagrams",
    "cache_pictures",
    "caption_grid",
    "captioner_diagram",
    "colour_lookup",
    "confusion_grid",
    "cost_curves",
    "depth_curves",
    "distance_curves",
    "error_curves",
    "found_objects",
    "grid_positions",
    "grouped_bars",
    "image_grid",
    "influence_maps",
    "learning_by_images",
    "loss_curve",
    "lucky_choice",
    "mask_conventions",
    "mask_pictures",
    "matching",
    "named_curves",
    "numbered_grids",
    "overlap_counts",
    "overlap_curves",
    "patch_attention",
    "patch_cut",
    "patch_vector",
    "position_similarity",
    "position_table",
    "query_attention",
    "query_specialities",
    "reference_arrows",
    "restoration_grid",
    "rotated_pairs",
    "sampling_points",
    "score_grids",
    "score_spread",
    "shifted_pair",
    "signed_maps",
    "sinusoid_columns",
    "softmax_in_blocks",
    "square_maps",
    "stacked_weights",
    "step_size_errors",
    "training_curves",
    "translator_diagram",
    "use_style",
    "wanted_bars",
    "weight_profiles",
    "window_grids",
    "word_attention",
    "word_masks",
    "word_tree",
]
