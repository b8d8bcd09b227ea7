"""Estimators of scikit-learn, XGBoost and LightGBM, compiled and compared: `python -m benchmarks.estimators`.

Needs the packages of the extra `estimators`. Every estimator is fitted to small data, converted by skl2onnx (those of
XGBoost and LightGBM by onnxmltools), and run by hip-compiler, by ONNX Runtime and by the estimator itself. Arguments
are words that names must have.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import onnxruntime

import hip_compiler

TOLERANCE = 1e-3
"""Of a result's largest magnitude. Converters round thresholds and parameters to float32, both engines alike."""
OPSETS = {"": 21, "ai.onnx.ml": 3}


@dataclass(frozen=True)
class Case:
    """An estimator and the data that it is fitted to.

    Attributes:
        estimator: module and class.
        data: a function of this module that gives features and targets.
        settings: arguments of the class.
        after: estimators that come before it in a pipeline.
    """

    estimator: str
    data: str
    settings: dict[str, Any]
    after: tuple[str, ...] = ()


def case(estimator: str, data: str, *after: str, **settings: Any) -> Case:
    return Case(estimator, data, settings, after)


def _features(rows: int = 160, columns: int = 6) -> np.ndarray:
    return np.random.default_rng(11).standard_normal((rows, columns)).astype(np.float32)


def _target(x: np.ndarray) -> np.ndarray:
    return np.asarray(x[:, 0] * 2 - x[:, 1] + np.sin(3 * x[:, 2]) + x[:, 3] * x[:, 4])


def three() -> tuple[np.ndarray, np.ndarray]:
    """Three classes."""
    x = _features()
    return x, np.digitize(_target(x), [-1.0, 1.0])


def two() -> tuple[np.ndarray, np.ndarray]:
    """Two classes, whose labels are not 0 and 1."""
    x = _features()
    return x, np.where(_target(x) > 0, 7, 3)


def names() -> tuple[np.ndarray, np.ndarray]:
    """Three classes, whose labels are words."""
    x, y = three()
    return x, np.array(["low", "middle", "high"])[y]


def numbers() -> tuple[np.ndarray, np.ndarray]:
    """One number."""
    x = _features()
    return x, _target(x)


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Two numbers."""
    x = _features()
    return x, np.stack([_target(x), x[:, 5] ** 2], 1)


def positive() -> tuple[np.ndarray, np.ndarray]:
    """Features and counts that are not negative."""
    x = np.abs(_features())
    return x, np.digitize(_target(x), [0.0, 2.0])


def gaps() -> tuple[np.ndarray, np.ndarray]:
    """Three classes, with features that are missing."""
    x, y = three()
    x[::5, 1] = np.nan
    x[1::7, 4] = np.nan
    return x, y


def whole() -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers from 0 on, and three classes."""
    x, y = three()
    return np.clip(np.round(x * 2), -3, 3).astype(np.int64) + 3, y


CASES: tuple[Case, ...] = (
    case("sklearn.linear_model:LinearRegression", "pairs"),
    case("sklearn.linear_model:PoissonRegressor", "positive"),
    case("sklearn.linear_model:LogisticRegression", "two"),
    case("sklearn.linear_model:LogisticRegression", "three"),
    case("sklearn.linear_model:SGDClassifier", "three", loss="log_loss", random_state=0),
    case("sklearn.linear_model:RidgeClassifier", "two"),
    case("sklearn.discriminant_analysis:LinearDiscriminantAnalysis", "three"),
    case("sklearn.discriminant_analysis:QuadraticDiscriminantAnalysis", "three"),
    case("sklearn.svm:SVC", "two"),
    case("sklearn.svm:SVC", "three", kernel="poly"),
    case("sklearn.svm:SVC", "two", kernel="sigmoid"),
    case("sklearn.svm:SVC", "three", kernel="linear", decision_function_shape="ovo"),
    case("sklearn.svm:NuSVC", "three", nu=0.3),
    case("sklearn.svm:SVC", "names", gamma=0.5),
    case("sklearn.svm:SVR", "numbers", C=10.0),
    case("sklearn.svm:NuSVR", "numbers", kernel="poly"),
    case("sklearn.svm:LinearSVC", "two"),
    case("sklearn.svm:LinearSVR", "numbers"),
    case("sklearn.svm:OneClassSVM", "three", nu=0.2),
    case("sklearn.tree:DecisionTreeClassifier", "two", max_depth=4),
    case("sklearn.tree:DecisionTreeRegressor", "pairs", max_depth=4),
    case("sklearn.ensemble:RandomForestClassifier", "two", n_estimators=8, random_state=0),
    case("sklearn.ensemble:RandomForestClassifier", "names", n_estimators=8, random_state=0),
    case("sklearn.ensemble:RandomForestRegressor", "numbers", n_estimators=8, random_state=0),
    case("sklearn.ensemble:ExtraTreesClassifier", "three", n_estimators=8, random_state=0),
    case("sklearn.ensemble:GradientBoostingClassifier", "two", n_estimators=8),
    case("sklearn.ensemble:GradientBoostingClassifier", "three", n_estimators=8),
    case("sklearn.ensemble:GradientBoostingRegressor", "numbers", n_estimators=8),
    case("sklearn.ensemble:HistGradientBoostingClassifier", "gaps", max_iter=8),
    case("sklearn.ensemble:AdaBoostClassifier", "three", n_estimators=5, random_state=0),
    case("sklearn.ensemble:BaggingRegressor", "numbers", n_estimators=4, random_state=0),
    case("sklearn.ensemble:IsolationForest", "three", n_estimators=8, random_state=0),
    case("sklearn.neighbors:KNeighborsClassifier", "three"),
    case("sklearn.neighbors:KNeighborsRegressor", "pairs"),
    case("sklearn.neighbors:LocalOutlierFactor", "three", novelty=True),
    case("sklearn.preprocessing:StandardScaler", "numbers"),
    case("sklearn.preprocessing:MinMaxScaler", "numbers", clip=True),
    case("sklearn.preprocessing:Normalizer", "numbers", norm="l1"),
    case("sklearn.preprocessing:PolynomialFeatures", "numbers"),
    case("sklearn.preprocessing:PowerTransformer", "numbers"),
    case("sklearn.preprocessing:QuantileTransformer", "numbers", n_quantiles=20),
    case("sklearn.preprocessing:OneHotEncoder", "whole"),
    case("sklearn.preprocessing:OrdinalEncoder", "whole"),
    case("sklearn.impute:SimpleImputer", "gaps"),
    case("sklearn.feature_selection:SelectKBest", "three", k=3),
    case("sklearn.decomposition:PCA", "numbers", n_components=3, whiten=True),
    case("sklearn.decomposition:KernelPCA", "numbers", n_components=3, kernel="rbf"),
    case("sklearn.neural_network:MLPClassifier", "three", hidden_layer_sizes=(8,), random_state=0),
    case("sklearn.neural_network:MLPRegressor", "numbers", hidden_layer_sizes=(8,), random_state=0),
    case("sklearn.gaussian_process:GaussianProcessRegressor", "numbers", alpha=0.1),
    case("sklearn.gaussian_process:GaussianProcessClassifier", "two"),
    case("sklearn.cluster:KMeans", "three", n_clusters=3, n_init=1, random_state=0),
    case("sklearn.mixture:GaussianMixture", "three", n_components=3, random_state=0),
    case("sklearn.naive_bayes:GaussianNB", "three"),
    case("sklearn.naive_bayes:MultinomialNB", "positive"),
    case("sklearn.naive_bayes:BernoulliNB", "three"),
    case("sklearn.naive_bayes:CategoricalNB", "whole"),
    case("sklearn.svm:SVC", "three", "sklearn.preprocessing:StandardScaler", "sklearn.decomposition:PCA"),
    case("sklearn.ensemble:RandomForestClassifier", "gaps", "sklearn.impute:SimpleImputer", n_estimators=5),
    case("sklearn.linear_model:LogisticRegression", "gaps", "sklearn.impute:SimpleImputer"),
    case("xgboost:XGBClassifier", "three", n_estimators=6, max_depth=3),
    case("xgboost:XGBRegressor", "numbers", n_estimators=6, max_depth=3),
    case("lightgbm:LGBMClassifier", "three", n_estimators=6, verbose=-1),
    case("lightgbm:LGBMRegressor", "gaps", n_estimators=6, verbose=-1),
)  # fmt: skip


def _class(name: str) -> Any:
    module, attribute = name.split(":")
    return getattr(import_module(module), attribute)


def register() -> None:
    """Tell skl2onnx of the converters that onnxmltools has."""
    skl2onnx = import_module("skl2onnx")
    shapes = import_module("skl2onnx.common.shape_calculator")
    options = {"zipmap": [True, False], "nocl": [True, False]}
    for package, module, convert in (
        ("xgboost", "xgboost.operator_converters.XGBoost", "convert_xgboost"),
        ("lightgbm", "lightgbm.operator_converters.LightGbm", "convert_lightgbm"),
    ):
        converter = getattr(import_module(f"onnxmltools.convert.{module}"), convert)
        prefix = {"xgboost": "XGB", "lightgbm": "LGBM"}[package]
        for kind, shape, given in (
            ("Classifier", shapes.calculate_linear_classifier_output_shapes, options),
            ("Regressor", shapes.calculate_linear_regressor_output_shapes, {"split": None}),
        ):
            cls = getattr(import_module(package), prefix + kind)
            skl2onnx.update_registered_converter(cls, f"{package}{kind}", shape, converter, options=given)


def fitted(one: Case) -> tuple[Any, np.ndarray]:
    """The estimator, and what it was fitted to."""
    x, y = globals()[one.data]()
    steps = [_class(name)() for name in one.after] + [_class(one.estimator)(**one.settings)]
    estimator = steps[0] if len(steps) == 1 else import_module("sklearn.pipeline").make_pipeline(*steps)
    return estimator.fit(x, y), x


def converted(estimator: Any, x: np.ndarray) -> Any:
    """The estimator as a model without maps."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    # Classifiers with probabilities have the option to give them as a tensor, and SVC has it without them.
    maps = hasattr(last, "classes_") and (hasattr(last, "predict_proba") or hasattr(last, "break_ties"))
    options = {id(last): {"zipmap": False}} if maps else None
    return import_module("skl2onnx").to_onnx(estimator, x[:1], options=options, target_opset=OPSETS)


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference beside the largest magnitude; for labels the share that differ. inf: of two kinds."""
    if found.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind != "f":
        return float((found != expected).mean())
    if (np.isnan(found) != np.isnan(expected)).any():
        return float("inf")
    largest = np.nanmax(np.abs(expected), initial=1e-9)
    return float(np.nanmax(np.abs(found.astype(np.float64) - expected), initial=0.0) / largest)


def own(estimator: Any, x: np.ndarray, found: np.ndarray) -> float:
    """Distance of the model's first result from the estimator's."""
    mine = estimator.predict(x) if hasattr(estimator, "predict") else estimator.transform(x)
    mine = np.asarray(mine.toarray() if hasattr(mine, "toarray") else mine)
    return distance(found.reshape(mine.shape) if found.size == mine.size else found, mine)


def compare(one: Case) -> tuple[str, bool]:
    """What came of a case, in words, and whether hip-compiler is at fault."""
    estimator, x = fitted(one)
    try:
        model = converted(estimator, x)
    except Exception as error:  # noqa: BLE001 - whatever a converter raises, there is no model to compare
        return f"not converted: {type(error).__name__}", False
    feeds = {model.graph.input[0].name: x}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        expected = dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds), strict=True))
    except Exception:  # noqa: BLE001 - ONNX Runtime's own classes
        return "ONNX Runtime does not run it", False
    try:
        found = hip_compiler.compile(model).run(feeds)
    except hip_compiler.HipCompilerError as error:
        return f"refused: {str(error).splitlines()[1].strip()}", True
    worst = max(distance(found[name], expected[name]) for name in expected)
    beside = own(estimator, x, found[next(iter(expected))])
    used = sorted({node.op_type for node in model.graph.node if node.domain == "ai.onnx.ml"})
    return f"{worst:8.1e} {beside:8.1e}  {', '.join(used)}", worst > TOLERANCE


def main(words: Sequence[str]) -> int:
    """Print a line for every case whose name has all words; 1 where one is refused or wrong."""
    try:
        register()
    except ModuleNotFoundError as error:
        print(f"{error}: pip install 'hip-compiler[estimators]'")
        return 2
    warnings.simplefilter("ignore")
    faults = 0
    print(f"{'estimator':46} {'data':9} {'runtime':>8} {'itself':>8}  operators of ai.onnx.ml")
    for one in CASES:
        settings = ",".join(str(value) for name, value in one.settings.items() if isinstance(value, str))
        name = ">".join(part.split(":")[1] for part in (*one.after, one.estimator)) + (
            f"({settings})" if settings else ""
        )
        if any(word not in name for word in words):
            continue
        text, fault = compare(one)
        faults += fault
        print(f"{name:46} {one.data:9} {text}{'  WRONG' if fault else ''}", flush=True)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
