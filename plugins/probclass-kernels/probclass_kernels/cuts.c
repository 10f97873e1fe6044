/* Cuts between the cells of a histogram that separate the classes: the method of Fayyad and Irani as
   in probclass, whose NumPy code has the formulas. The logarithms are rounded otherwise than NumPy's.
   Where that might change a cut, nothing is returned, and the caller takes NumPy's. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "processors.h"

enum { BLOCK = 256 };

/* x · log₂ x, 0 for 0, with an error of few units in the last place: log₂ x = e + log₂ m with m from
   √½ to √2, and ln m = 2 (s + s³/3 + s⁵/5 + …) with s = (m − 1) / (m + 1), whose last coefficients
   are those of FreeBSD's e_log.c. */
ANY_PROCESSOR double times_log2(double x) {
    const uint64_t one = 0x3ff0000000000000, half_root = 0x3fe6a09e667f3bcd;
    const uint64_t magic_bits = 0x4330000000000000; /* 2⁵², whose last bits are an integer */
    double positive = x > 0x1p-1022 ? x : 0x1p-1022, exponent, m;
    uint64_t bits;
    memcpy(&bits, &positive, sizeof bits);
    uint64_t biased = (bits + one - half_root) >> 52, number = biased | magic_bits;
    memcpy(&exponent, &number, sizeof exponent);
    exponent -= 0x1p52 + 1023.0;
    bits = bits + one - (biased << 52);
    memcpy(&m, &bits, sizeof m);
    double f = m - 1.0, s = f / (2.0 + f), z = s * s, w = z * z, half = 0.5 * f * f;
    double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 +
                                                       w * 1.531383769920937332e-01));
    double odd = z * (6.666666666666735130e-01 + w * (2.857142874366239149e-01 +
                 w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    double ln = f - (half - s * (half + odd + even));
    return x * (exponent + ln * 1.4426950408889634);
}

static double log_2(double x) { return times_log2(x) / x; }

/* A range of cells, and what is known of the rows of each class in it. */
typedef struct {
    const double *before; /* (classes, stride), rows before each cell, from the first one of the range */
    int64_t classes, stride, cells;
} Range;

static double rows_of(const Range *range, int64_t class) {
    const double *before = range->before + class * range->stride;
    return before[range->cells] - before[0];
}

/* Rows times the entropy of their classes, in bits, on the two sides of the cuts from `start` on, and
   the rows on either side. */
ANY_PROCESSOR void entropies(const Range *range, int64_t start, int n, double *rows_left,
                             double *rows_right, double *bits_left, double *bits_right) {
    for (int i = 0; i < n; i++) rows_left[i] = rows_right[i] = bits_left[i] = bits_right[i] = 0.0;
    for (int64_t class = 0; class < range->classes; class++) {
        const double *before = range->before + class * range->stride;
        double none = before[0], all = before[range->cells] - none;
        if (!(all > 0.0)) continue;
        before += start;
        for (int i = 0; i < n; i++) {
            double left = before[i] - none, right = all - left;
            right = right > 0.0 ? right : 0.0;
            rows_left[i] += left;
            rows_right[i] += right;
            bits_left[i] += times_log2(left);
            bits_right[i] += times_log2(right);
        }
    }
    for (int i = 0; i < n; i++) {
        double left = times_log2(rows_left[i]) - bits_left[i];
        double right = times_log2(rows_right[i]) - bits_right[i];
        bits_left[i] = left > 0.0 ? left : 0.0;
        bits_right[i] = right > 0.0 ? right : 0.0;
    }
}

WITH_AVX2 void entropies_with_avx2(const Range *range, int64_t start, int n, double *rows_left,
                                   double *rows_right, double *bits_left, double *bits_right) {
    entropies(range, start, n, rows_left, rows_right, bits_left, bits_right);
}

/* Number of cells below the best cut, 0 if no cut is worth its cost, −1 if rounding decides.

   log_patterns: (classes + 1,), log₂(3^c − 2) for c classes.
   tie: share of the bits up to which two cuts are equally good.
   after: (cells,), scratch. */
static int64_t best_cut(const Range *range, const double *log_patterns, double tie, double *after) {
    double all = 0.0, bits = 0.0, least = INFINITY;
    int64_t present = 0, cuts = range->cells - 1;
    for (int64_t class = 0; class < range->classes; class++) {
        double rows = rows_of(range, class);
        all += rows;
        bits -= times_log2(rows);
        present += rows > 0.0;
    }
    if (present < 2 || cuts < 1) return 0;
    bits += times_log2(all);
    bits = bits > 0.0 ? bits : 0.0;
    double left[BLOCK], right[BLOCK], bits_left[BLOCK], bits_right[BLOCK];
    int avx2 = has_avx2();
    for (int64_t start = 0; start < cuts; start += BLOCK) {
        int n = cuts - start < BLOCK ? (int)(cuts - start) : BLOCK;
        (avx2 ? entropies_with_avx2 : entropies)(range, start + 1, n, left, right, bits_left,
                                                 bits_right);
        for (int i = 0; i < n; i++) {
            double sum = bits_left[i] + bits_right[i];
            after[start + i] = sum;
            least = sum < least ? sum : least;
        }
    }
    /* No sum of terms x · log₂ x is farther than this from NumPy's. */
    double error = 0x1p-50 * (double)(range->classes + 16) * (all * (1.0 + fabs(log_2(all))) + 1.0);
    double limit = least + tie * bits;
    int64_t best = -1, as_good = 0;
    for (int64_t i = 0; i < cuts; i++) {
        int may_be = after[i] <= limit + error;
        if (may_be && best < 0) best = i;
        as_good += may_be;
    }
    if (!(bits < INFINITY) || best < 0 || (as_good > 1 && !(after[best] <= limit - error))) return -1;
    (avx2 ? entropies_with_avx2 : entropies)(range, best + 1, 1, left, right, bits_left, bits_right);
    int64_t present_left = 0, present_right = 0;
    for (int64_t class = 0; class < range->classes; class++) {
        const double *before = range->before + class * range->stride;
        present_left += before[best + 1] > before[0];
        present_right += before[range->cells] > before[best + 1];
    }
    double entropy = (double)present * bits / all;
    entropy -= (double)present_left * bits_left[0] / left[0];
    entropy -= (double)present_right * bits_right[0] / right[0];
    double gain = bits - after[best], length = all - 1.0;
    double cost = log_2(length > 1.0 ? length : 1.0) + log_patterns[present] - entropy;
    double classes = (double)range->classes;
    error *= 1.0 + classes / left[0] + classes / right[0];
    error += 1e-12 * (1.0 + fabs(cost) + log_patterns[present]);
    if (!(fabs(gain - cost) > error)) return -1;
    return gain > cost ? best + 1 : 0;
}

/* Cut a histogram, then again on either side, as long as a cut is worth its cost. Returns the number
   of cuts, or −1 if rounding decides about one.

   before: (classes, cells + 1), rows before each cell and after the last.
   log_patterns, tie: see best_cut.
   after: (cells,), scratch.
   pending: (cells + 1, 2), scratch.
   cuts: (cells,), number of cells below each cut, in no order, written from the beginning. */
int64_t mdl_cuts(const double *before, int64_t classes, int64_t cells, const double *log_patterns,
                 double tie, double *after, int64_t *pending, int64_t *cuts) {
    int64_t found = 0, waiting = 1;
    pending[0] = 0;
    pending[1] = cells;
    while (waiting) {
        int64_t *range = pending + 2 * --waiting, first = range[0], last = range[1];
        Range of = {before + first, classes, cells + 1, last - first};
        int64_t size = best_cut(&of, log_patterns, tie, after);
        if (size < 0) return -1;
        if (!size) continue;
        cuts[found++] = first + size;
        range[0] = first;
        range[1] = range[2] = first + size;
        range[3] = last;
        waiting += 2;
    }
    return found;
}
