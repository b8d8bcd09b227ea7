"""Measures hip-compiler: conformance with ONNX's backend tests, and speed and memory beside ONNX Runtime."""
