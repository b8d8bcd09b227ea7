// Support vector classifiers of pairs of classes, and the probabilities of classes that agree best with theirs.
// Pairs are (0, 1), (0, 2), ..., (1, 2), ...: each before the next class.
#pragma once
#include "vocabulary.h"

namespace hipc {

HIPC_SHARED i64 pairs_of(i64 classes) { return classes * (classes - 1) / 2; }
HIPC_SHARED i64 pair_at(i64 classes, i64 i, i64 j) { return i * classes - i * (i + 1) / 2 + j - i - 1; }

// Vectors of class c are starts[c] to starts[c + 1]. A column of `coefficients` is a vector's weight against every other
// class, its own left out.
struct PairwiseMachine {
  const f32 *coefficients, *offsets;
  const i64 *starts;
  i64 classes, vectors;
};

HIPC_SHARED bool has_vectors(const PairwiseMachine &machine, i64 own) {
  i64 first = machine.starts[own], last = machine.starts[own + 1];
  return first >= 0 && first <= last && last <= machine.vectors;
}

HIPC_SHARED f64 share_of(const PairwiseMachine &machine, const f32 *values, i64 own, i64 row) {
  f64 sum = 0;
  const f32 *weights = machine.coefficients + row * machine.vectors;
  for (i64 v = machine.starts[own]; v < machine.starts[own + 1]; v++) sum += (f64)(weights[v] * values[v]);
  return sum;
}

// Above 0 for class i, else for class j; `values` are the kernel's for every vector.
HIPC_SHARED f32 pair_score(const PairwiseMachine &machine, const f32 *values, i64 i, i64 j) {
  f64 sum = share_of(machine, values, i, j - 1) + share_of(machine, values, j, i);
  return (f32)(sum + (f64)machine.offsets[pair_at(machine.classes, i, j)]);
}

// The first of the classes with most votes.
HIPC_SHARED i64 winner_of(const f32 *scores, i64 classes) {
  i64 winner = 0, most = -1;
  for (i64 c = 0; c < classes; c++) {
    i64 votes = 0;
    for (i64 j = c + 1; j < classes; j++) votes += scores[pair_at(classes, c, j)] > 0;
    for (i64 i = 0; i < c; i++) votes += !(scores[pair_at(classes, i, c)] > 0);
    if (votes > most) winner = c, most = votes;
  }
  return winner;
}

// Probability of the first class of a pair: Platt's sigmoid, kept away from 0 and 1.
HIPC_SHARED f32 pair_probability(f32 score, f32 a, f32 b) {
  f32 t = score * a + b;
  f32 half = 1 / (1 + exp_of(-abs_of(t)));
  f32 p = 1 - (t < 0 ? 1 - half : half);
  p = p < 1e-7f ? 1e-7f : p;
  return p > 1 - 1e-7f ? 1 - 1e-7f : p;
}

// Room that `couple` needs, in floats.
HIPC_SHARED i64 coupling_room(i64 classes) { return classes * classes + classes; }

// Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling" (2004), second method:
// p minimises the sum over pairs of (r_ji p_i - r_ij p_j)^2. Sums in f32 and the bounds of steps and error are those of
// ONNX Runtime, whose results stop as far from the minimum as they do.
HIPC_SHARED void couple(const f32 *scores, const f32 *a, const f32 *b, i64 classes, f32 *room, f32 *p) {
  f32 *q = room, *product = room + classes * classes;
  for (i64 i = 0; i < classes * classes; i++) q[i] = 0;
  // The diagonal's terms in ascending order of the other class.
  for (i64 j = 0; j < classes; j++)
    for (i64 i = 0; i < classes; i++) {
      if (i == j) continue;
      i64 first = i < j ? i : j, second = i < j ? j : i, pair = pair_at(classes, first, second);
      f32 wins = pair_probability(scores[pair], a[pair], b[pair]);
      f32 loses = 1 - wins, of_j = j < i ? wins : loses;
      q[i * classes + i] += of_j * of_j;
      q[i * classes + j] = -(wins * loses);
    }
  for (i64 i = 0; i < classes; i++) p[i] = 1.0f / (f32)classes;
  f32 bound = 0.005f / (f32)classes;
  for (i64 step = 0; step < 100; step++) {
    f32 whole = 0, error = 0;
    for (i64 i = 0; i < classes; i++) {
      product[i] = 0;
      for (i64 j = 0; j < classes; j++) product[i] += q[i * classes + j] * p[j];
      whole += p[i] * product[i];
    }
    for (i64 i = 0; i < classes; i++) {
      f32 off = abs_of(product[i] - whole);
      error = off > error ? off : error;
    }
    if (error < bound) return;
    for (i64 i = 0; i < classes; i++) {
      f32 diagonal = q[i * classes + i], change = (whole - product[i]) / diagonal;
      p[i] += change;
      whole = (whole + change * (change * diagonal + 2 * product[i])) / (1 + change) / (1 + change);
      for (i64 j = 0; j < classes; j++) {
        product[j] = (product[j] + change * q[i * classes + j]) / (1 + change);
        p[j] /= 1 + change;
      }
    }
  }
}

} // namespace hipc
