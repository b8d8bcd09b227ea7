"""The version of hip-compiler's sources."""

VERSION = "0.1.0"
