/* The Gram matrix of lists of shares: `gram.py` says what it is for.

    k samples (m)      i, j points (n)      e entries: those of each sample one after the other

A row i of the matrix is the sum, over the samples that list the point i, of their share of it times all their shares.
The samples of a point are anywhere: most time goes to waiting for their entries, which are fetched ahead.

This file includes itself, for shares of each type.
*/

#if !defined(REAL)

#include <stdint.h>
#include <string.h>

#include "../compiled.h"

typedef int64_t Int;

enum { AHEAD = 16 };
enum { DENSE = 3 }; /* part of all points from which rows of numbers are faster than each by itself (measured) */

#ifdef __GNUC__
#define FETCH(address) __builtin_prefetch(address)
#else
#define FETCH(address) (void)(address)
#endif
#define JOINED(name, type) name##_##type
#define EXPANDED(name, type) JOINED(name, type)
#define NAME(name) EXPANDED(name, REAL)

#define REAL float
#include "gram.c"
#undef REAL
#define REAL double
#include "gram.c"
#undef REAL

#else

#define Entry NAME(Entry)
#define Of NAME(Of)

typedef struct {
    REAL share;
    int32_t point;
} Entry;

/* An entry of a point: its share, and where those of the same sample are. */
typedef struct {
    int32_t first, last;
    REAL share;
} Of;

/* Sorts the entries that are `kept`, of every `stride`-th sample, by samples: `entries`, which have room for one more; and
by points: `starts` (n + 1) of those of each in `of_points`. The number of `pairs` (n) is that of each point's entries with
all of the same sample. */
EXPORT void NAME(sort_entries)(Int m, Int n, Int stride, const Int *offsets, const uint8_t *kept, const int32_t *points,
                               const REAL *shares, Entry *entries, Int *starts, Of *of_points, Int *pairs) {
    Int used = 0;
    memset(starts, 0, sizeof(Int) * (n + 1));
    memset(pairs, 0, sizeof(Int) * n);
    for (Int k = 0; k < m; k += stride) {
        Int first = used;
        for (Int e = offsets[k]; e < offsets[k + 1]; e++) { /* without a branch: which are kept is any pattern */
            entries[used] = (Entry){shares[e], points[e]};
            used += kept[e];
        }
        for (Int e = first; e < used; e++) {
            starts[entries[e].point + 1]++;
            pairs[entries[e].point] += used - first;
        }
    }
    for (Int i = 0; i < n; i++)
        starts[i + 1] += starts[i];
    used = 0;
    for (Int k = 0; k < m; k += stride) { /* starts[i] moves on to where the next point's entries begin */
        Int first = used;
        for (Int e = offsets[k]; e < offsets[k + 1]; e++)
            used += kept[e];
        for (Int e = first; e < used; e++)
            of_points[starts[entries[e].point]++] = (Of){(int32_t)first, (int32_t)used, entries[e].share};
    }
    memmove(starts + 1, starts, sizeof(Int) * n);
    starts[0] = 0;
}

static inline void NAME(fetch)(const Entry *entries, const Of *of, const Of *end) {
    if (of + AHEAD < end) {
        const char *from = (const char *)(entries + of[AHEAD].first);
        FETCH(from);
        FETCH(from + 64);
    }
}

/* Rows `first` to `last` - 1 of the matrix, added to `gram` (n, n). */
EXPORT void NAME(dense_rows)(Int first, Int last, Int n, const Entry *entries, const Int *starts, const Of *of_points,
                             double *gram) {
    for (Int i = first; i < last; i++)
        for (const Of *of = of_points + starts[i]; of < of_points + starts[i + 1]; of++) {
            NAME(fetch)(entries, of, of_points + starts[last]);
            for (Int e = of->first; e < of->last; e++)
                gram[i * n + entries[e].point] += (double)of->share * entries[e].share;
        }
}

/* The whole matrix, sample by sample, of so few points that it stays in cache: `gram` (n, n), which is zero. Points of a sample
ascend. `row` (n) is zero, and is left so. */
EXPORT VECTORISED void NAME(few_points)(Int m, Int n, const Int *offsets, const int32_t *points, const REAL *shares,
                                        double *row, double *gram) {
    for (Int k = 0; k < m; k++) {
        Int first = offsets[k], last = offsets[k + 1];
        int dense = (last - first) * DENSE > n; /* then more numbers, but one after the other, take less */
        for (Int e = first; e < last && dense; e++)
            row[points[e]] = shares[e];
        for (Int e = first; e < last; e++) {
            double share = shares[e], *to = gram + points[e] * n;
            if (dense) {
#pragma omp simd
                for (Int j = points[e]; j < n; j++)
                    to[j] += share * row[j];
            } else
                for (Int other = e; other < last; other++)
                    to[points[other]] += share * shares[other];
        }
        for (Int e = first; e < last && dense; e++)
            row[points[e]] = 0;
    }
    for (Int i = 0; i < n; i++)
        for (Int j = 0; j < i; j++)
            gram[i * n + j] = gram[j * n + i];
}

/* The same, sparse: one row after the other the `count` (last - first) of its entries, their points, which ascend, and
values; returns their number. `sum` (n), and `seen`, a bit for each point, are zero, and are left so. */
EXPORT Int NAME(sparse_rows)(Int first, Int last, Int n, const Entry *entries, const Int *starts, const Of *of_points,
                             double *sum, uint64_t *seen, int32_t *count, int32_t *points, double *values) {
    Int used = 0;
    for (Int i = first; i < last; i++) {
        Int before = used;
        for (const Of *of = of_points + starts[i]; of < of_points + starts[i + 1]; of++) {
            NAME(fetch)(entries, of, of_points + starts[last]);
            for (Int e = of->first; e < of->last; e++) {
                int32_t j = entries[e].point;
                sum[j] += (double)of->share * entries[e].share;
                seen[j >> 6] |= (uint64_t)1 << (j & 63);
            }
        }
        for (Int word = 0; word < (n + 63) / 64; word++) {
            uint64_t bits = seen[word];
            seen[word] = 0;
            for (Int j = 64 * word; bits; j++, bits >>= 1)
                if (bits & 1) {
                    points[used] = (int32_t)j;
                    values[used++] = sum[j];
                    sum[j] = 0;
                }
        }
        count[i - first] = (int32_t)(used - before);
    }
    return used;
}

#undef Entry
#undef Of

#endif
