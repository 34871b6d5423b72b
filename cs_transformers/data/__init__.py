"""Everything that is read, made or fetched: the embedded world of shapes, captions, images, features, downloads."""

from cs_transformers.data.caption_files import write_array, write_caption_files
from cs_transformers.data.caption_json import caption_data, load_coco_json, load_flickr8k_photos, read_coco_json
from cs_transformers.data.captions import (
    CaptionDataset,
    LazyArray,
    captions_by_image,
    decode_captions,
    feature_file,
    image_from_url,
    load_coco_data,
    load_flickr8k,
    sample_coco_minibatch,
)
from cs_transformers.data.scene_files import ensure_scenes, scene_features, scene_vocabulary, scenes_of, write_scenes
from cs_transformers.data.scene_language import caption_accuracy, caption_is_true, describe, parse_caption
from cs_transformers.data.scenes import (
    SCENE_CLASSES,
    Scene,
    SceneObject,
    make_scenes,
    render,
    scene_class,
    scene_classification,
    scene_from_url,
)
from cs_transformers.data.vocabulary import Vocabulary, tokenize

__all__ = [
    "SCENE_CLASSES",
    "CaptionDataset",
    "LazyArray",
    "Scene",
    "SceneObject",
    "Vocabulary",
    "caption_accuracy",
    "caption_data",
    "caption_is_true",
    "captions_by_image",
    "decode_captions",
    "describe",
    "ensure_scenes",
    "feature_file",
    "image_from_url",
    "load_coco_data",
    "load_coco_json",
    "load_flickr8k",
    "load_flickr8k_photos",
    "make_scenes",
    "parse_caption",
    "read_coco_json",
    "render",
    "sample_coco_minibatch",
    "scene_class",
    "scene_classification",
    "scene_features",
    "scene_from_url",
    "scene_vocabulary",
    "scenes_of",
    "tokenize",
    "write_array",
    "write_caption_files",
    "write_scenes",
]
