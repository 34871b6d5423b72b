"""The data sets that can be fetched: what each is, where it lies, how it is recognised, on which terms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RemoteFile:
    """One file to fetch.

    Args:
        name: Its name on disk.
        urls: Where it lies, the preferred address first.
        size: Its size in bytes where that is known exactly.
        sha256: Its SHA-256 in hexadecimal, or the first digits of it where only these are published.
        md5: Its MD5 where no SHA-256 is published; it finds damage, not malice.
        unpack: Whether it is an archive to unpack and remove.
        prefix: A folder at the top of the archive to leave out.
    """

    name: str
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    unpack: bool = False
    prefix: str = ""


@dataclass(frozen=True)
class RemoteDataSet:
    """A data set that ``cst data get`` knows.

    Args:
        name: What the reader types.
        what: One line on what it holds.
        folder: Its folder inside the data folders.
        leaves: Patterns of what must be there afterwards, each with the least number of files.
        sources: The files to fetch.
        download: Bytes to fetch in all, roughly where no exact size is known.
        licence: On which terms it may be used.
    """

    name: str
    what: str
    folder: str
    leaves: tuple[tuple[str, int], ...]
    sources: tuple[RemoteFile, ...]
    download: int
    licence: str


def _each(*names: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, 1) for name in names)


COCO_TERMS = "annotations CC BY 4.0 (COCO Consortium); each photo has the licence of its Flickr author"
COCO_HOSTS = ("https://s3.amazonaws.com/images.cocodataset.org", "http://images.cocodataset.org")
FLICKR_HOST = "https://github.com/jbrownlee/Datasets/releases/download/Flickr8k"

COCO_CAPTIONS = RemoteDataSet(
    name="coco-captions",
    what="COCO 2014 captions with VGG-16 features in the layout of CS231n (82,783 + 40,504 photos)",
    folder="coco_captioning",
    leaves=_each(
        "coco2014_captions.h5",
        "coco2014_vocab.json",
        "train2014_urls.txt",
        "val2014_urls.txt",
        "train2014_vgg16_fc7_pca.h5",
        "val2014_vgg16_fc7_pca.h5",
        "train2014_vgg16_fc7.h5",
        "val2014_vgg16_fc7.h5",
    ),
    sources=(
        RemoteFile(
            name="coco_captioning.zip",
            urls=(
                "https://cs231n.stanford.edu/coco_captioning.zip",
                "http://cs231n.stanford.edu/coco_captioning.zip",
            ),
            unpack=True,
            prefix="coco_captioning",
        ),
    ),
    download=1_000_000_000,
    licence=COCO_TERMS,
)

FLICKR8K = RemoteDataSet(
    name="flickr8k",
    what="8,091 photos with five captions each",
    folder="flickr8k",
    leaves=(
        ("Flicker8k_Dataset/*.jpg", 8091),
        *_each(
            "Flickr8k.token.txt",
            "Flickr_8k.trainImages.txt",
            "Flickr_8k.devImages.txt",
            "Flickr_8k.testImages.txt",
        ),
    ),
    sources=(
        RemoteFile(
            name="Flickr8k_text.zip",
            urls=(f"{FLICKR_HOST}/Flickr8k_text.zip",),
            md5="bf6c1abcb8e4a833b7f922104de18627",
            unpack=True,
        ),
        RemoteFile(
            name="Flickr8k_Dataset.zip",
            urls=(f"{FLICKR_HOST}/Flickr8k_Dataset.zip",),
            md5="f18a1e2920de5bd84dae7cf08ec78978",
            unpack=True,
        ),
    ),
    download=1_120_000_000,
    licence="non-commercial research and education; the photos belong to their Flickr authors (Hodosh et al. 2013)",
)

CIFAR10 = RemoteDataSet(
    name="cifar10",
    what="60,000 colour images of 32x32 in ten classes, the official archive that torchvision reads",
    folder="cifar10",
    leaves=_each(
        *(f"cifar-10-batches-py/data_batch_{number}" for number in range(1, 6)),
        "cifar-10-batches-py/test_batch",
        "cifar-10-batches-py/batches.meta",
    ),
    sources=(
        RemoteFile(
            name="cifar-10-python.tar.gz",
            urls=("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
            size=170_498_071,
            sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            md5="c58f30108f718f92721af3b95e74349a",
            unpack=True,
        ),
    ),
    download=170_498_071,
    licence="no formal licence; cite Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images",
)

MULTI30K_HOST = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"


def _sentences(name: str, size: int, sha256: str) -> RemoteFile:
    return RemoteFile(name=f"{name}.gz", urls=(f"{MULTI30K_HOST}/{name}.gz",), size=size, sha256=sha256)


_MULTI30K_FILES = (
    _sentences("train.de", 637_044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
    _sentences("train.en", 568_929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
    _sentences("val.de", 24_681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
    _sentences("val.en", 21_650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
    _sentences("test_2016_flickr.de", 22_890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"),
    _sentences("test_2016_flickr.en", 21_077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"),
)
MULTI30K = RemoteDataSet(
    name="multi30k",
    what="31,014 captions of photos in German and English (29,000 train, 1,014 val, 1,000 test)",
    folder="multi30k",
    leaves=_each(*(file.name.removesuffix(".gz") + "*" for file in _MULTI30K_FILES)),
    sources=_MULTI30K_FILES,
    download=1_296_271,
    licence="for researchers and educators, non-commercial research and education; cite Elliott et al. 2016",
)


def _coco_annotations(year: int, size: int, sha256: str) -> RemoteDataSet:
    archive = f"annotations_trainval{year}.zip"
    return RemoteDataSet(
        name=f"coco-annotations-{year}",
        what=f"official COCO {year} captions, boxes and key points as json, no photos",
        folder=f"coco{year}",
        leaves=_each(
            *(f"annotations/{task}_{s}{year}.json" for task in ("captions", "instances") for s in ("train", "val"))
        ),
        sources=(
            RemoteFile(
                name=archive,
                urls=tuple(f"{host}/annotations/{archive}" for host in COCO_HOSTS),
                size=size,
                sha256=sha256,
                unpack=True,
            ),
        ),
        download=size,
        licence=COCO_TERMS,
    )


def _backbone(name: str, what: str, file: str, megabytes: int) -> RemoteDataSet:
    digits = file.removesuffix(".pth").rsplit("-", 1)[1]
    return RemoteDataSet(
        name=f"backbone-{name}",
        what=f"{what}, ImageNet weights of torchvision",
        folder="backbones",
        leaves=_each(file),
        sources=(RemoteFile(name=file, urls=(f"https://download.pytorch.org/models/{file}",), sha256=digits),),
        download=megabytes * 1_000_000,
        licence="BSD-3-Clause (torchvision); trained on ImageNet, whose terms are non-commercial research",
    )


DATA_SETS: dict[str, RemoteDataSet] = {
    entry.name: entry
    for entry in (
        COCO_CAPTIONS,
        _coco_annotations(2014, 252_872_794, "031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009"),
        _coco_annotations(2017, 252_907_541, "113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268"),
        FLICKR8K,
        CIFAR10,
        MULTI30K,
        _backbone("resnet18", "ResNet-18 (512 features)", "resnet18-f37072fd.pth", 47),
        _backbone("resnet50", "ResNet-50 (2048 features)", "resnet50-11ad3fa6.pth", 102),
        _backbone("mobilenet_v3_small", "MobileNetV3-Small (576 features)", "mobilenet_v3_small-047dcff4.pth", 10),
        _backbone("vgg16", "VGG-16 (4096 features, the network behind CS231n's)", "vgg16-397923af.pth", 553),
    )
}
