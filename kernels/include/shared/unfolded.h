// Arguments of the kernels of col2im and of transposed convolutions.
#pragma once
#include "arguments.h"

namespace hipc {

// Columns [planes][blocks][cells], added up to images of up to six spatial axes.
struct Col2Im {
  i64 image[6], block[6], cells[6], strides[6], pads[6], dilations[6];
  i64 planes, size, blocks, cell_count;
  i32 axes;
};

// Spatial extents are padded in front to three. Only the pads before the first element matter.
struct TransposedWindow {
  i32 in[3], out[3], kernel[3], strides[3], dilations[3], pads[3];
  i32 images, groups, channels, filters;  // channels and filters of one group
};

} // namespace hipc
