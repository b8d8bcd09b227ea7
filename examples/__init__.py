"""Programs that use hip-compiler on real networks: `make demo` runs them."""
