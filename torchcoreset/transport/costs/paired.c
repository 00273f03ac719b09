/* Differences of pairs of rows, in double: `euclidean.py` and `../result.py` say what they are for. And other loops over
rows: which shifts are exact, for `problem.py`, means of powers, for `drift.py`, how boundaries move, for `boundaries.py`,
and which samples are nearest to them, for `boundary.py`. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../compiled.h"

/* Of row rows[e] of y (m, d), or e where `rows` is NULL, and row cols[e] of x (n, d): `square` (k). */
#define SQUARES(TYPE)                                                                                                  \
    EXPORT VECTORISED void squares_##TYPE(int64_t k, int64_t d, const TYPE *y, const double *x, const int64_t *rows,   \
                                          const int64_t *cols, double *square) {                                       \
        for (int64_t e = 0; e < k; e++) {                                                                              \
            const TYPE *from = y + (rows == NULL ? e : rows[e]) * d;                                                   \
            const double *to = x + cols[e] * d;                                                                        \
            double sum = 0;                                                                                            \
            ADD_SQUARES(double, from[c] - to[c]);                                                                      \
            square[e] = sum;                                                                                           \
        }                                                                                                              \
    }

SQUARES(float)
SQUARES(double)

/* Of each row of y (m, d) the square of its norm, `square` (m). */
#define NORMS(TYPE)                                                                                                    \
    EXPORT VECTORISED void norms_##TYPE(int64_t m, int64_t d, const TYPE *y, TYPE *square) {                           \
        for (int64_t k = 0; k < m; k++) {                                                                              \
            const TYPE *row = y + k * d;                                                                               \
            TYPE sum = 0;                                                                                              \
            ADD_SQUARES(TYPE, row[c]);                                                                                 \
            square[k] = sum;                                                                                           \
        }                                                                                                              \
    }

NORMS(float)
NORMS(double)

enum { ROWS = 4, LANES = 16, FEW_LANES = 8 }; /* samples and points of a tile, whose sums stay in registers */

#define TILE(COUNT, LAST)                                                                                              \
    for (int r = 0; r < COUNT; r++)                                                                                    \
        for (int l = 0; l < LAST; l++) sum[r][l] = 0;                                                                  \
    for (int64_t i = 0; i < d; i++)                                                                                    \
        for (int r = 0; r < COUNT; r++) {                                                                              \
            double from = rows[r * d + i];                                                                             \
            _Pragma("omp simd")                                                                                        \
            for (int l = 0; l < LAST; l++) {                                                                           \
                double apart = from - to[i * LANES + l];                                                               \
                sum[r][l] += apart * apart;                                                                            \
            }                                                                                                          \
        }

/* Of all rows of y (m, d) and of x (n, d): `square` (m, n); of `count` such pairs of tables. `to` has room for a tile of
points, (d, LANES). */
#define BETWEEN(TYPE)                                                                                                  \
    EXPORT VECTORISED void squares_between_##TYPE(int64_t count, int64_t m, int64_t n, int64_t d, const TYPE *y,       \
                                                  const double *x, double *to, double *square) {                       \
        for (; count > 0; count--, y += m * d, x += n * d, square += m * n)                                            \
            for (int64_t j = 0; j < n; j += LANES) {                                                                   \
                int64_t some = n - j < LANES ? n - j : LANES;                                                          \
                for (int64_t i = 0; i < d; i++)                                                                        \
                    for (int64_t l = 0; l < LANES; l++) to[i * LANES + l] = l < some ? x[(j + l) * d + i] : 0;         \
                for (int64_t k = 0; k < m; k += ROWS) {                                                                \
                    const TYPE *rows = y + k * d;                                                                      \
                    int64_t left = m - k < ROWS ? m - k : ROWS;                                                        \
                    double sum[ROWS][LANES];                                                                           \
                    if (left < ROWS) {                                                                                 \
                        TILE(left, LANES)                                                                              \
                    } else if (some <= FEW_LANES) {                                                                    \
                        TILE(ROWS, FEW_LANES)                                                                          \
                    } else {                                                                                           \
                        TILE(ROWS, LANES)                                                                              \
                    }                                                                                                  \
                    for (int64_t r = 0; r < left; r++)                                                                 \
                        for (int64_t l = 0; l < some; l++) square[(k + r) * n + j + l] = sum[r][l];                    \
                }                                                                                                      \
            }                                                                                                          \
    }

BETWEEN(float)
BETWEEN(double)

/* Of the pairs of `SQUARES` the differences y - x times their weights (k), added to `moved` (n, d) for each row of x. */
#define DISPLACEMENT(TYPE)                                                                                             \
    EXPORT VECTORISED void displacement_##TYPE(int64_t k, int64_t d, const TYPE *y, const double *x,                   \
                                               const int64_t *rows, const int64_t *cols, const double *weight,         \
                                               double *moved) {                                                        \
        for (int64_t e = 0; e < k; e++) {                                                                              \
            const TYPE *from = y + rows[e] * d;                                                                        \
            const double *to = x + cols[e] * d;                                                                        \
            double *sum = moved + cols[e] * d;                                                                         \
            for (int64_t i = 0; i < d; i++) sum[i] += weight[e] * (from[i] - to[i]);                                   \
        }                                                                                                              \
    }

DISPLACEMENT(float)
DISPLACEMENT(double)

enum { SOME = 64 }; /* columns that a row is asked for at once */

/* Rounds a shift (d) to multiples of `spacing`, and sets to 0 the entries that would round a number of the rows of x
(n, d) or y (m, d): to subtract and add them changes it. Returns how many are left. Rows are read only where entries are
left, which of many a row or two leave none. */
#define EXACT_SHIFT(TYPE)                                                                                              \
    EXPORT int64_t exact_shift_##TYPE(int64_t n, int64_t m, int64_t d, double spacing, const TYPE *x, const TYPE *y,   \
                                      TYPE *shift) {                                                                   \
        int64_t all = 0, place[SOME];                                                                                  \
        for (int64_t first = 0; first < d; first += SOME) {                                                            \
            int64_t left = 0;                                                                                          \
            for (int64_t i = first; i < d && i < first + SOME; i++) {                                                  \
                shift[i] = (TYPE)(rint((double)shift[i] / spacing) * spacing);                                         \
                place[left] = i;                                                                                       \
                left += shift[i] != 0;                                                                                 \
            }                                                                                                          \
            for (int64_t k = 0; k < n + m && left; k++) {                                                              \
                const TYPE *row = k < n ? x + k * d : y + (k - n) * d;                                                 \
                int64_t found = left;                                                                                  \
                left = 0;                                                                                              \
                for (int64_t e = 0; e < found; e++) {                                                                  \
                    int64_t i = place[e];                                                                              \
                    TYPE moved = row[i] - shift[i];                                                                    \
                    int exact = moved + shift[i] == row[i];                                                            \
                    shift[i] = exact ? shift[i] : 0;                                                                   \
                    place[left] = i;                                                                                   \
                    left += exact;                                                                                     \
                }                                                                                                      \
            }                                                                                                          \
            all += left;                                                                                               \
        }                                                                                                              \
        return all;                                                                                                    \
    }

EXACT_SHIFT(float)
EXACT_SHIFT(double)

/* Means of the differences (m, d) of rows from an origin (d), of their squares and of their fourth powers, for weights (m) of
sum 1: `means` (4, d) holds the first, the squares twice, and the last. */
#define POWERS(TYPE)                                                                                                   \
    EXPORT VECTORISED void powers_##TYPE(int64_t m, int64_t d, const TYPE *rows, const double *weight,                 \
                                         const double *origin, double *means) {                                        \
        double *first = means, *second = means + d, *fourth = means + 3 * d;                                           \
        for (int64_t i = 0; i < 4 * d; i++)                                                                            \
            means[i] = 0;                                                                                              \
        for (int64_t k = 0; k < m; k++) {                                                                              \
            _Pragma("omp simd")                                                                                        \
            for (int64_t i = 0; i < d; i++) {                                                                          \
                double offset = rows[k * d + i] - origin[i], square = offset * offset;                                 \
                first[i] += weight[k] * offset;                                                                        \
                second[i] += weight[k] * square;                                                                       \
                fourth[i] += weight[k] * (square * square);                                                            \
            }                                                                                                          \
        }                                                                                                              \
        for (int64_t i = 0; i < d; i++)                                                                                \
            means[2 * d + i] = second[i];                                                                              \
    }

POWERS(float)
POWERS(double)

enum { COLUMNS = 6, BLOCK = 128 }; /* columns of a tile of products, whose sums stay in registers, and rows of a block */

#define PRODUCTS(LAST)                                                                                                 \
    for (int64_t r = 0; r < rows; r++)                                                                                 \
        for (int c = 0; c < COLUMNS; c++) {                                                                            \
            double by = right[r * width + c];                                                                          \
            _Pragma("omp simd")                                                                                        \
            for (int l = 0; l < LAST; l++) sum[c][l] += by * left[r * n + l];                                          \
        }

/* For points x (n, d) that move by dx (n, d): of each point i the sum over j of coupling_ji <x_i - x_j, dx_j>, less
<across_i, dx_i>, `drift` (n). `room` holds n (d + 1 + COLUMNS) numbers. */
EXPORT VECTORISED void boundary_drift(int64_t n, int64_t d, const double *coupling, const double *across,
                                      const double *x, const double *dx, double *room, double *drift) {
    int64_t width = (d + COLUMNS) / COLUMNS * COLUMNS; /* of dx_j and, beside it, <x_j, dx_j>, with zeros behind */
    for (int64_t j = 0; j < n; j++) {
        const double *from = x + j * d, *by = dx + j * d;
        double *row = room + j * width, own = 0, still = 0;
        for (int64_t k = 0; k < d; k++) {
            row[k] = by[k];
            own += (from[k] - x[k]) * by[k]; /* about the first point: far from the origin digits would go */
            still -= across[j * d + k] * by[k];
        }
        row[d] = own;
        for (int64_t k = d + 1; k < width; k++) row[k] = 0;
        drift[j] = still;
    }
    for (int64_t j = 0; j < n; j += BLOCK)
        for (int64_t i = 0; i < n; i += LANES)
            for (int64_t k = 0; k < width; k += COLUMNS) {
                int64_t rows = n - j < BLOCK ? n - j : BLOCK;
                int64_t at = n < LANES ? 0 : i + LANES < n ? i : n - LANES; /* the last tile begins in the one before */
                int some = n < LANES ? (int)n : LANES;
                const double *left = coupling + j * n + at, *right = room + j * width + k;
                double sum[COLUMNS][LANES] = {{0}};
                if (some == LANES) {
                    PRODUCTS(LANES)
                } else {
                    PRODUCTS(some)
                }
                for (int64_t c = 0; c < COLUMNS && k + c <= d; c++)
                    for (int64_t l = i - at; l < some; l++)
                        drift[at + l] += k + c < d ? (x[(at + l) * d + k + c] - x[k + c]) * sum[c][l] : -sum[c][l];
            }
}

/* A sample, and what it loses by leaving its cell. */
typedef struct {
    double margin;
    int64_t sample;
} Leaver;

/* Of equal margins the first sample comes first. */
INLINE int comes_before(Leaver a, Leaver b) {
    return a.margin < b.margin || (a.margin == b.margin && a.sample < b.sample);
}

static int ascending(const void *a, const void *b) {
    const Leaver *p = a, *q = b;
    return comes_before(*q, *p) - comes_before(*p, *q);
}

/* Rearranges: the `count` least first, the largest of these last among them. Source: Hoare (1961), algorithm 65. */
static void least_first(Leaver *near, int64_t size, int64_t count) {
    int64_t low = 0, high = size - 1;
    while (low < high) {
        Leaver pivot = near[(low + high) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (comes_before(near[i], pivot)) i++;
            while (comes_before(pivot, near[j])) j--;
            if (i <= j) {
                Leaver swapped = near[i];
                near[i++] = near[j];
                near[j--] = swapped;
            }
        }
        if (count - 1 <= j) high = j;
        else if (count - 1 >= i) low = i;
        else return;
    }
}

/* Of each cell the `each` (n) samples with the least `margin` (m), of those in it by `cell` (m), which are as many: `found`,
one cell after the other, ascending. Returns 0 if all is well, -1 if there is no memory. */
EXPORT int64_t least_margins(int64_t n, int64_t m, const int64_t *cell, const double *margin, const int64_t *each,
                             int64_t *found) {
    int64_t all = 0, failed = 0;
    for (int64_t i = 0; i < n; i++) all += each[i];
    Leaver *near = malloc(sizeof(Leaver) * (2 * all + 1)); /* twice as many of each, and then the least of these */
    int64_t *first = malloc(sizeof(int64_t) * (n + 1)), *number = calloc(n + 1, sizeof(int64_t));
    double *limit = malloc(sizeof(double) * (n + 1));
    failed = !near || !first || !number || !limit;
    for (int64_t i = 0, before = 0; i < n && !failed; before += 2 * each[i++])
        first[i] = before, limit[i] = each[i] ? INFINITY : -INFINITY;
    for (int64_t k = 0; k < m && !failed; k++) {
        int64_t i = cell[k];
        if (!(margin[k] < limit[i]) && number[i] >= each[i]) continue;
        Leaver *own = near + first[i];
        own[number[i]++] = (Leaver){margin[k], k};
        if (number[i] == 2 * each[i]) {
            least_first(own, number[i], each[i]);
            number[i] = each[i];
            limit[i] = own[each[i] - 1].margin;
        }
    }
    for (int64_t i = 0; i < n && !failed; i++) {
        least_first(near + first[i], number[i], each[i]);
        qsort(near + first[i], each[i], sizeof(Leaver), ascending);
        for (int64_t e = 0; e < each[i]; e++) *found++ = near[first[i] + e].sample;
    }
    free(near), free(first), free(number), free(limit);
    return failed ? -1 : 0;
}
