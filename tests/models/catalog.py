"""The networks, one row each. Weights stay in the packages that publish them; none is committed here."""

from __future__ import annotations

from tests.models import packages
from tests.models.feeds import Extents, files, page, pictures, sentences, voice_chunk, voice_frames
from tests.models.listeners import LISTENERS, TABLES
from tests.models.model import Model, row


def find(key: str) -> Model:
    """The row of that key. Raises `KeyError` with the keys that exist."""
    for model in CATALOG:
        if model.key == key:
            return model
    raise KeyError(f"no network {key!r}; there are: {', '.join(model.key for model in CATALOG)}")


# Means and deviations of pixels in 0..255, as the networks' own preprocessing has them.
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
CENTRED = ((127.5, 127.5, 127.5), (127.5, 127.5, 127.5))
FACES = ((127.5, 127.5, 127.5), (128.0, 128.0, 128.0))
BLUE_GREEN_RED = ((104.0, 117.0, 123.0), (1.0, 1.0, 1.0))


def _light(key: str, file: str, name: str, summary: str) -> Model:
    """A graph of onnx's own tests: real structure, weights made by ConstantOfShape, fixed extents."""
    make = pictures(name, *IMAGENET)
    return row(f"light_{key}", f"{summary}, made-up weights", packages.LIGHT, file, make, _image(1, 224, 224))


def _text(batch: int, sequence: int) -> Extents:
    return {"batch": batch, "sequence": sequence}


def _image(batch: int, height: int, width: int) -> Extents:
    return {"batch": batch, "height": height, "width": width}


CATALOG: tuple[Model, ...] = (
    row(
        "minilm_l3",
        "sentence embedder, BERT-like, 3 layers",
        packages.MINILM_L3,
        "paraphrase-MiniLM-L3-v2.onnx",
        sentences("input_ids", "attention_mask"),
        _text(1, 128),
        _text(3, 19),
        _text(2, 3),
    ),
    row(
        "minilm_l6_w8",
        "sentence embedder, 6 layers, int8 weights",
        packages.MINILM_L6,
        "model.onnx",
        sentences("input_ids", "attention_mask", "token_type_ids"),
        _text(1, 128),
        _text(2, 33),
    ),
    row(
        "magika",
        "file-type classifier on bytes",
        packages.MAGIKA,
        "model.onnx",
        files("bytes"),
        {"batch": 1},
        {"batch": 5},
    ),
    row(
        "nsfw_cnn",
        "picture classifier, ResNet-like, channels last",
        packages.NSFW,
        "open_nsfw.onnx",
        pictures("input_0", *BLUE_GREEN_RED, channels_first=False),
        _image(1, 224, 224),
        _image(2, 224, 224),
    ),
    row(
        "mtcnn_pnet",
        "face detector, proposals",
        packages.MTCNN,
        "pnet.onnx",
        pictures("input_1", *FACES, channels_first=False),
        _image(1, 240, 320),
        _image(2, 61, 83),
    ),
    row(
        "mtcnn_rnet",
        "face detector, refinement",
        packages.MTCNN,
        "rnet.onnx",
        pictures("input_2", *FACES, channels_first=False),
        _image(32, 24, 24),
        _image(3, 24, 24),
    ),
    row(
        "mtcnn_onet",
        "face detector, landmarks",
        packages.MTCNN,
        "onet.onnx",
        pictures("input_3", *FACES, channels_first=False),
        _image(8, 48, 48),
        _image(1, 48, 48),
    ),
    row(
        "vit_s",
        "saliency, vision transformer",
        packages.VIT_S,
        "vit_s_focus.onnx",
        pictures("input_image", *IMAGENET),
        _image(1, 224, 224),
        _image(2, 224, 224),
    ),
    row(
        "ppocr_det",
        "text detector",
        packages.PPOCR,
        "ch_PP-OCRv4_det_infer.onnx",
        pictures("x", *IMAGENET, draw=page),
        _image(1, 640, 640),
        _image(1, 96, 160),
    ),
    row(
        "ppocr_rec",
        "text recogniser",
        packages.PPOCR,
        "ch_PP-OCRv4_rec_infer.onnx",
        pictures("x", *CENTRED, draw=page),
        _image(1, 48, 320),
        _image(2, 48, 104),
    ),
    row(
        "ppocr_cls",
        "text direction classifier",
        packages.PPOCR,
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        pictures("x", *CENTRED, draw=page),
        _image(1, 48, 192),
        _image(4, 48, 192),
    ),
    row(
        "silero_seq",
        "voice detector, LSTM over many frames",
        packages.SILERO,
        "silero_vad_16k_sequence.onnx",
        voice_frames,
        {"frames": 32},
        {"frames": 7},
    ),
    row(
        "silero_if",
        "voice detector, one chunk, nested If",
        packages.SILERO,
        "silero_vad.onnx",
        voice_chunk(rate=True),
        {"batch": 1},
        {"batch": 3},
        {"batch": 2, "rate": 8000},
    ),
    row(
        "silero_op15",
        "voice detector, one chunk, opset 15",
        packages.SILERO,
        "silero_vad_16k_op15.onnx",
        voice_chunk(rate=True),
        {"batch": 1},
        {"batch": 3},
    ),
    row(
        "silero_half",
        "voice detector, one chunk, f16 weights",
        packages.SILERO,
        "silero_vad_half.onnx",
        voice_chunk(rate=False),
        {"batch": 1},
        {"batch": 3},
    ),
    row(
        "silero_ifless",
        "voice detector, one chunk, both rates without If",
        packages.SILERO,
        "silero_vad_op18_ifless.onnx",
        voice_chunk(rate=True),
        {"batch": 1},
        {"batch": 3},
        {"batch": 2, "rate": 8000},
    ),
    _light("alexnet", "light_bvlc_alexnet.onnx", "data_0", "AlexNet"),
    _light("densenet121", "light_densenet121.onnx", "data_0", "DenseNet-121"),
    _light("inception_v1", "light_inception_v1.onnx", "data_0", "Inception v1"),
    _light("inception_v2", "light_inception_v2.onnx", "data_0", "Inception v2"),
    _light("resnet50", "light_resnet50.onnx", "gpu_0/data_0", "ResNet-50"),
    _light("shufflenet", "light_shufflenet.onnx", "gpu_0/data_0", "ShuffleNet"),
    _light("squeezenet", "light_squeezenet.onnx", "data_0", "SqueezeNet"),
    _light("vgg19", "light_vgg19.onnx", "data_0", "VGG-19"),
    _light("zfnet512", "light_zfnet512.onnx", "gpu_0/data_0", "ZFNet-512"),
    *LISTENERS,
    *TABLES,
)
