/* Loops over rows, for float64 without fused operations: the results are those of NumPy's pairwise
   sums, bit for bit. The caller owns all memory. */

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Loops for any processor, of which the compiler also makes a version for those with AVX2. */

#define ANY_PROCESSOR static inline __attribute__((always_inline))
#ifdef __x86_64__
#define WITH_AVX2 static __attribute__((target("avx2")))
static int has_avx2(void) { return __builtin_cpu_supports("avx2") != 0; }
#else
#define WITH_AVX2 static
static int has_avx2(void) { return 0; }
#endif

enum { LANES = 8, LEAF = 128, BLOCK = 1024 };

static double sum_of_lanes(const double *lane) {
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* Sum of the halves, down to LEAF terms, which are added in lanes: the order of NumPy's sums. */
static double pairwise_sum(const double *x, int64_t n) {
    if (n > LEAF) {
        int64_t half = n / 2;
        half -= half % LANES;
        return pairwise_sum(x, half) + pairwise_sum(x + half, n - half);
    }
    double sum = 0.0, lane[LANES];
    int64_t i = 0;
    if (n >= LANES) {
        memcpy(lane, x, sizeof lane);
        for (i = LANES; i < n - n % LANES; i += LANES)
            for (int j = 0; j < LANES; j++) lane[j] += x[i + j];
        sum = sum_of_lanes(lane);
    }
    for (; i < n; i++) sum += x[i];
    return sum;
}

typedef struct {
    double sum, squares;
} Sums;

/* pairwise_sum of the deviations from a center and of their squares, in one pass. */
static Sums pairwise_deviations(const double *x, double center, int64_t n) {
    if (n > LEAF) {
        int64_t half = n / 2;
        half -= half % LANES;
        Sums left = pairwise_deviations(x, center, half);
        Sums right = pairwise_deviations(x + half, center, n - half);
        return (Sums){left.sum + right.sum, left.squares + right.squares};
    }
    Sums sums = {0.0, 0.0};
    int64_t i = 0;
    if (n >= LANES) {
        double lane[LANES], squares[LANES];
        for (int j = 0; j < LANES; j++) {
            lane[j] = x[j] - center;
            squares[j] = lane[j] * lane[j];
        }
        for (i = LANES; i < n - n % LANES; i += LANES)
            for (int j = 0; j < LANES; j++) {
                double deviation = x[i + j] - center;
                lane[j] += deviation;
                squares[j] += deviation * deviation;
            }
        sums = (Sums){sum_of_lanes(lane), sum_of_lanes(squares)};
    }
    for (; i < n; i++) {
        double deviation = x[i] - center;
        sums.sum += deviation;
        sums.squares += deviation * deviation;
    }
    return sums;
}

/* Sum as numpy.add.reduceat rounds it, the first term plus the sum of the others; 0 for no terms. */
static double sum_of(const double *x, int64_t n) {
    return n > 1 ? x[0] + pairwise_sum(x + 1, n - 1) : n ? x[0] : 0.0;
}

static Sums deviations_of(const double *x, double center, int64_t n) {
    if (!n) return (Sums){0.0, 0.0};
    double first = x[0] - center;
    if (n == 1) return (Sums){first, first * first};
    Sums others = pairwise_deviations(x + 1, center, n - 1);
    return (Sums){first + others.sum, first * first + others.squares};
}

/* `sums_by_class` of one column, (n,). */
static void sums_of_column(const double *values, const double *weights, const int64_t *order,
                           const int64_t *counts, int64_t classes, int64_t m, double *scratch,
                           double *sums) {
    double *x = scratch, *weight = scratch + m, *term = scratch + 2 * m;
    for (int64_t c = 0; c < classes; c++) {
        int64_t rows = counts[c], n = rows;
        for (int64_t i = 0; i < rows; i++) x[i] = values[order[i]];
        double sum = sum_of(x, rows), count = (double)rows;
        Sums rest;
        if (sum != sum) {
            n = 0;
            for (int64_t i = 0; i < rows; i++) {
                double value = x[i];
                x[n] = value;
                n += value == value;
            }
            count = (double)n;
            sum = sum_of(x, n);
        }
        if (weights) {
            int64_t known = 0;
            for (int64_t i = 0; i < rows; i++)
                if (values[order[i]] == values[order[i]]) weight[known++] = weights[order[i]];
            for (int64_t i = 0; i < n; i++) term[i] = x[i] * weight[i];
            count = sum_of(weight, n);
            sum = sum_of(term, n);
        }
        double mean = sum / (count > 0.0 ? count : 1.0);
        if (weights) {
            for (int64_t i = 0; i < n; i++) x[i] -= mean;
            for (int64_t i = 0; i < n; i++) term[i] = x[i] * weight[i];
            rest.sum = sum_of(term, n);
            for (int64_t i = 0; i < n; i++) term[i] = x[i] * x[i] * weight[i];
            rest.squares = sum_of(term, n);
        } else {
            rest = deviations_of(x, mean, n);
        }
        sums[c] = count;
        sums[classes + c] = sum;
        sums[2 * classes + c] = rest.sum;
        sums[3 * classes + c] = rest.squares;
        order += rows;
    }
}

/* Least and greatest value, NaN if there is none; returns the number of NaN.

   values: (n,).
   ends: (2,), written. */
static int64_t extremes(const double *values, int64_t n, double *ends) {
    double low[LANES], high[LANES];
    int64_t missing = 0, i = 0;
    for (int j = 0; j < LANES; j++) {
        low[j] = INFINITY;
        high[j] = -INFINITY;
    }
    for (; i <= n - LANES; i += LANES)
        for (int j = 0; j < LANES; j++) {
            double value = values[i + j];
            low[j] = value < low[j] ? value : low[j];
            high[j] = value > high[j] ? value : high[j];
            missing += value != value;
        }
    for (; i < n; i++) {
        low[0] = values[i] < low[0] ? values[i] : low[0];
        high[0] = values[i] > high[0] ? values[i] : high[0];
        missing += values[i] != values[i];
    }
    for (int j = 1; j < LANES; j++) {
        low[0] = low[j] < low[0] ? low[j] : low[0];
        high[0] = high[j] > high[0] ? high[j] : high[0];
    }
    ends[0] = missing < n ? low[0] : NAN;
    ends[1] = missing < n ? high[0] : NAN;
    return missing;
}

/* Sums of columns by class: of the weights, of the values, and of the deviations from the mean and
   their squares; and the extremes of the columns, found while they are in the cache. Values that are
   NaN are left out; a class without a value gets zeros.

   columns: (d,), each (n,).
   weights: (n,), or NULL for weights of 1.
   order: (n,), positions of the rows sorted by class.
   counts: (classes,), rows of each class.
   scratch: (m,), or (3, m) with weights, with m at least the rows of the largest class.
   sums: (d, 4, classes), written.
   ends: (d, 2), written.
   missing: (d,), number of NaN, written. */
void sums_by_class(const double *const *columns, int64_t d, int64_t n, const double *weights,
                   const int64_t *order, const int64_t *counts, int64_t classes, int64_t m,
                   double *scratch, double *sums, double *ends, int64_t *missing) {
    for (int64_t j = 0; j < d; j++) {
        missing[j] = extremes(columns[j], n, ends + 2 * j);
        sums_of_column(columns[j], weights, order, counts, classes, m, scratch,
                       sums + 4 * classes * j);
    }
}

/* `center_by_class` of one column, (n,). */
static void center_column(const double *values, const int64_t *order, const int64_t *counts,
                          int64_t classes, double *centered, double *means) {
    for (int64_t c = 0; c < classes; c++) {
        int64_t rows = counts[c];
        for (int64_t i = 0; i < rows; i++) centered[i] = values[order[i]];
        double mean = sum_of(centered, rows) / (double)rows, residue = mean;
        if (mean == mean) {
            for (int64_t i = 0; i < rows; i++) centered[i] -= mean;
            residue = sum_of(centered, rows) / (double)rows;
        }
        means[c] = mean;
        means[classes + c] = residue;
        centered += rows;
        order += rows;
    }
}

/* Columns sorted by class, less the mean of the class, where the class has no NaN; and the extremes
   of the columns, found while they are in the cache.

   columns: (d,), each (n,).
   order: (n,), positions of the rows sorted by class.
   counts: (classes,), rows of each class, at least 1.
   centered: (d, n), written.
   means: (d, 2, classes), written: of the values, and of what is left of them; NaN for a class with
       NaN.
   ends: (d, 2), written.
   missing: (d,), number of NaN, written. */
void center_by_class(const double *const *columns, int64_t d, int64_t n, const int64_t *order,
                     const int64_t *counts, int64_t classes, double *centered, double *means,
                     double *ends, int64_t *missing) {
    for (int64_t j = 0; j < d; j++) {
        missing[j] = extremes(columns[j], n, ends + 2 * j);
        center_column(columns[j], order, counts, classes, centered + j * n, means + 2 * classes * j);
    }
}

/* Count rows by class and code, null first: counts[class, 1 + code]; returns 0, or −1 if a group is
   not that of a class, or a code is not one of the codes.

   group: (n,), class of each row, from 0 to below classes.
   codes: (n,), from −1 to below size − 1.
   counts: (classes, size), fewer than 2³¹, added to.
   more: the same for every other row, because a count that was just written takes long to read; or
       counts, if they are so many that few are written twice in a row. */
int count_codes(const int32_t *group, const int32_t *codes, int64_t n, int32_t classes,
                int32_t size, int64_t *counts, int64_t *more) {
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int32_t *class = group + start, *code = codes + start;
        int rows = n - start < BLOCK ? (int)(n - start) : BLOCK, invalid = 0, i = 0;
        int32_t place[BLOCK];
        for (int j = 0; j < rows; j++) {
            invalid |= class[j] < 0 || class[j] >= classes || code[j] < -1 || code[j] >= size - 1;
            /* Unsigned, because codes that are refused may overflow. */
            place[j] = (int32_t)((uint32_t)class[j] * (uint32_t)size + (uint32_t)code[j] + 1u);
        }
        if (invalid) return -1;
        for (; i + 1 < rows; i += 2) {
            counts[place[i]]++;
            more[place[i + 1]]++;
        }
        if (i < rows) counts[place[i]]++;
    }
    return 0;
}

ANY_PROCESSOR void half_squares(const double *block, int64_t d, int64_t n, const double *mean,
                                const double *precision, int64_t classes, double *result,
                                int64_t stride) {
    enum { TOGETHER = 16 };
    double few[TOGETHER] = {0.0};
    for (int64_t start = 0; start < n; start += TOGETHER) {
        int rows = n - start < TOGETHER ? (int)(n - start) : TOGETHER;
        for (int64_t c = 0; c < classes; c++) {
            double squares[TOGETHER] = {0.0}, *to = result + c * stride + start;
            for (int64_t j = 0; j < d; j++) {
                const double *x = block + j * n + start;
                double center = mean[c * d + j], scale = precision[c * d + j];
                if (rows < TOGETHER) x = memcpy(few, x, (size_t)rows * sizeof *x);
                for (int i = 0; i < TOGETHER; i++) {
                    double deviation = (x[i] - center) * scale;
                    deviation = x[i] == x[i] ? deviation : 0.0;
                    squares[i] += deviation * deviation;
                }
            }
            for (int i = 0; i < rows; i++) to[i] -= 0.5 * squares[i];
        }
    }
}

WITH_AVX2 void half_squares_with_avx2(const double *block, int64_t d, int64_t n, const double *mean,
                                      const double *precision, int64_t classes, double *result,
                                      int64_t stride) {
    half_squares(block, d, n, mean, precision, classes, result, stride);
}

/* Subtract half the sum of the squares of standardized values, ½ Σ_j ((x_j − μ_cj) / σ_cj)², without
   those that are NaN.

   block: (d, n), values.
   mean, precision: (classes, d), μ and 1 / σ.
   result: (classes, n), subtracted from; rows begin `stride` numbers after each other. */
void subtract_half_squares(const double *block, int64_t d, int64_t n, const double *mean,
                           const double *precision, int64_t classes, double *result,
                           int64_t stride) {
    (has_avx2() ? half_squares_with_avx2 : half_squares)(block, d, n, mean, precision, classes,
                                                         result, stride);
}
