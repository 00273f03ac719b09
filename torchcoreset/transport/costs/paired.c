/* Squares of the distances of pairs of rows, from differences in double: `euclidean.py` says what they are for. */

#include <stddef.h>
#include <stdint.h>

#include "../compiled.h"

/* Of row rows[e] of y (m, d), or e where `rows` is NULL, and row cols[e] of x (n, d): `square` (k). */
#define SQUARES(TYPE)                                                                                                  \
    EXPORT VECTORISED void squares_##TYPE(int64_t k, int64_t d, const TYPE *y, const double *x, const int64_t *rows,   \
                                          const int64_t *cols, double *square) {                                       \
        for (int64_t e = 0; e < k; e++) {                                                                              \
            const TYPE *from = y + (rows == NULL ? e : rows[e]) * d;                                                   \
            const double *to = x + cols[e] * d;                                                                        \
            double sum = 0;                                                                                            \
            _Pragma("omp simd reduction(+ : sum)")                                                                     \
            for (int64_t i = 0; i < d; i++)                                                                            \
                sum += (from[i] - to[i]) * (from[i] - to[i]);                                                          \
            square[e] = sum;                                                                                           \
        }                                                                                                              \
    }

SQUARES(float)
SQUARES(double)
