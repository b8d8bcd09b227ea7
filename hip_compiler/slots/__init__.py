"""The seven slots, and how a pipeline is assembled from data."""

from hip_compiler.registry.slot import MEANINGS, PipelineSlot
from hip_compiler.slots.assemble import SLOT_PREFIX, Step, pipeline_text

__all__ = ["MEANINGS", "SLOT_PREFIX", "PipelineSlot", "Step", "pipeline_text"]
