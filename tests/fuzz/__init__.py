"""Properties of operator families on drawn shapes and numbers. `make fuzz` draws many more examples."""
