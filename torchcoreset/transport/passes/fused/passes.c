/* Hard and soft passes over samples: `compiled.py` loads this and says what it is for.

    x (n, d) points, y (m, d) samples      v (n,) potential      r = c - v      c = |y - x|^2, or |y - x|

Samples are taken in blocks of WIDTH, one in each lane of VECTORS vectors, and walk past all points: c - v is in
registers when it is compared, and is never written down. Soft passes look at it twice, and keep it for one block.

Of |y - x|^2 the term |y|^2 is left out, which is the same for all points: compared is |x|^2 - 2 <x, y> - v. The number
of points n is a multiple of POINTS; those that only fill it up have v = -inf, and are nobody's.

This file includes itself, for vectors of each size and for numbers of each type.
*/

#if !defined(BYTES)

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../../compiled.h"
#ifdef __GNUC__ /* clang, too: vectors are a part of the language */
#define VECTORS_KNOWN
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDER
#pragma GCC diagnostic ignored "-Wpsabi" /* of vectors as arguments: those of functions that are inlined */
#endif
#ifdef __GNUC__
#define FETCH(address) __builtin_prefetch(address)
#else
#define FETCH(address) (void)(address)
#endif
#define JOINED(name, type, bytes) name##_##type##_##bytes
#define EXPANDED(name, type, bytes) JOINED(name, type, bytes)
#define NAME(name) EXPANDED(name, REAL, BYTES)

typedef int64_t Int;

enum { VECTORS = 2 };  /* of samples, and */
enum { POINTS = 4 };   /* points whose products are summed at once: what fits into 16 registers */
enum { ROW_VECTORS = 4 }; /* of a row that are summed at once */
enum { AHEAD = 4, LINE = 64 }; /* lines of a row, and their bytes, that are fetched before they are read */
enum { SUMMED_BLOCKS = 16 }; /* of samples, whose masses are added up before double takes them in */
enum { TERMS = 14 };   /* of the series of 2^x about 0: (log 2 / 2)^14 / 14! is 4e-18 */

static const double LOWEST_POWER = -46; /* as in engine.py: 2 to this is nothing, and its square still a normal float */

/* The number in a function's name is that of the bytes of its vectors. Those of 64 are no faster than of 32 (measured, on
a Zen 5); and vectors that are wider than registers are taken apart, number by number. */
#ifdef VECTORS_KNOWN
#define BYTES 16
#include "passes.c"
#undef BYTES
#endif
#ifdef WIDER
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define BYTES 32
#include "passes.c"
#undef BYTES
#pragma GCC pop_options
#endif

/* Bytes of the widest vectors that this processor has; 0 if the compiler knew none, and nothing is here. */
EXPORT Int widest(void) {
#ifdef WIDER
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return 32;
#endif
#ifdef VECTORS_KNOWN
    return 16;
#else
    return 0;
#endif
}

#elif !defined(REAL)

/* A function of two vectors lane by lane, which compilers make one instruction of; of masks and bits gcc 12 made four. */
#define LANE_BY_LANE(NAMED, CHOICE)                                                                                    \
    INLINE Vector NAME(NAMED)(Vector a, Vector b) {                                                                    \
        REAL left[LANES], right[LANES];                                                                                \
        memcpy(left, &a, sizeof left);                                                                                 \
        memcpy(right, &b, sizeof right);                                                                               \
        _Pragma("omp simd")                                                                                            \
        for (Int l = 0; l < LANES; l++)                                                                                \
            left[l] = CHOICE;                                                                                          \
        memcpy(&a, left, sizeof left);                                                                                 \
        return a;                                                                                                      \
    }

#define REAL float
#define WORD int32_t
#define SHARED 0x1p-24f /* half a unit in the last place: part of the largest share below which none joins points */
#define SERIES 8 /* terms for float: (log 2 / 2)^8 / 8! is 5e-9 */
#define MANTISSA 23
#include "passes.c"
#undef REAL
#undef WORD
#undef SHARED
#undef SERIES
#undef MANTISSA

#define REAL double
#define WORD int64_t
#define SHARED 0x1p-45
#define SERIES TERMS
#define MANTISSA 52
#include "passes.c"
#undef REAL
#undef WORD
#undef SHARED
#undef SERIES
#undef MANTISSA

#else

#define Vector NAME(Vector)
#define Mask NAME(Mask)
#define LANES (BYTES / (Int)sizeof(REAL))
#define WIDTH (VECTORS * LANES)

typedef REAL Vector __attribute__((vector_size(BYTES), aligned(sizeof(REAL))));
typedef WORD Mask __attribute__((vector_size(BYTES), aligned(sizeof(REAL))));

/* What a pass reads. The cost is |y - x| if `root`, else |y - x|^2. */
typedef struct {
    Int n, m, d, root;
    const REAL *x, *x2; /* points, and the squares of their norms */
    const REAL *v;
    const REAL *y, *y2; /* samples, and the squares of their norms, which only roots need */
} NAME(Pass);
#define Pass NAME(Pass)

INLINE Vector NAME(all)(REAL value) { return (Vector){0} + value; }

LANE_BY_LANE(smaller, left[l] < right[l] ? left[l] : right[l])
LANE_BY_LANE(larger, left[l] < right[l] ? right[l] : left[l])

INLINE Vector NAME(root)(Vector r) {
    REAL held[LANES];
    memcpy(held, &r, sizeof held);
#pragma omp simd
    for (Int l = 0; l < LANES; l++)
        held[l] = sizeof(REAL) == 4 ? (REAL)sqrtf((float)held[l]) : (REAL)sqrt(held[l]);
    memcpy(&r, held, sizeof held);
    return r;
}

/* The samples of a block, -2 times and one in each lane, (d, WIDTH); lanes without one hold zeros. */
INLINE void NAME(load)(const Pass *p, Int start, REAL *table) {
    Int count = p->m - start < WIDTH ? p->m - start : WIDTH;
    for (Int s = 0; s < count; s++)
        for (Int k = 0; k < p->d; k++)
            table[k * WIDTH + s] = -2 * p->y[(start + s) * p->d + k];
    for (Int s = count; s < WIDTH; s++)
        for (Int k = 0; k < p->d; k++)
            table[k * WIDTH + s] = 0;
}

/* Their squares. */
INLINE void NAME(load_squares)(const Pass *p, Int start, Vector *squares) {
    REAL held[WIDTH] = {0};
    if (p->root)
        memcpy(held, p->y2 + start, sizeof(REAL) * (p->m - start < WIDTH ? p->m - start : WIDTH));
    memcpy(squares, held, sizeof held);
}

/* c - v of POINTS points from i on and the samples of a block. */
INLINE void NAME(reduce)(const Pass *p, const REAL *table, const Vector *squares, Int i, int root,
                         Vector r[POINTS][VECTORS]) {
    const REAL *x = p->x + i * p->d;
    Vector sum[POINTS][VECTORS];
    for (Int q = 0; q < POINTS; q++)
        for (Int a = 0; a < VECTORS; a++)
            sum[q][a] = NAME(all)(root ? p->x2[i + q] : p->x2[i + q] - p->v[i + q]);
    for (Int k = 0; k < p->d; k++)
        for (Int a = 0; a < VECTORS; a++) {
            Vector y = *(const Vector *)(table + k * WIDTH + a * LANES);
            for (Int q = 0; q < POINTS; q++)
                sum[q][a] += x[q * p->d + k] * y;
        }
    for (Int q = 0; q < POINTS; q++)
        for (Int a = 0; a < VECTORS; a++)
            r[q][a] = root ? NAME(root)(NAME(larger)(sum[q][a] + squares[a], NAME(all)(0))) - p->v[i + q] : sum[q][a];
}

/* The lowest of a sample, the second lowest, and the place of the lowest: of equal ones the first. */
typedef struct {
    Vector lowest, second;
    Mask place;
} NAME(Two);
#define Two NAME(Two)

INLINE void NAME(compare)(Two *two, Vector r, Int i) {
    Mask less = r < two->lowest;
    two->second = NAME(smaller)(two->second, NAME(larger)(two->lowest, r));
    two->lowest = NAME(smaller)(r, two->lowest);
    two->place = (less & (WORD)i) | (~less & two->place);
}

INLINE void NAME(two_of_block)(const Pass *p, const REAL *table, const Vector *squares, int root, Two *two) {
    Vector r[POINTS][VECTORS];
    for (Int a = 0; a < VECTORS; a++)
        two[a] = (Two){NAME(all)(INFINITY), NAME(all)(INFINITY), (Mask){0}};
    for (Int i = 0; i < p->n; i += POINTS) {
        NAME(reduce)(p, table, squares, i, root, r);
#pragma GCC unroll 4
        for (Int q = 0; q < POINTS; q++)
#pragma GCC unroll 2
            for (Int a = 0; a < VECTORS; a++)
                NAME(compare)(&two[a], r[q][a], i + q);
    }
}

/* The same, compiled for each cost. */
INLINE void NAME(two_of)(const Pass *p, const REAL *table, const Vector *squares, Two *two) {
    if (p->root)
        NAME(two_of_block)(p, table, squares, 1, two);
    else
        NAME(two_of_block)(p, table, squares, 0, two);
}

/* Of each sample the point nearest in c - v, `cell` (m), and how much farther the second nearest is, `margin` (m).
`work` holds d WIDTH numbers. */
EXPORT void NAME(two_nearest)(Int n, Int m, Int d, Int root, const REAL *x, const REAL *x2, const REAL *v,
                              const REAL *y, const REAL *y2, REAL *work, Int *cell, REAL *margin) {
    Pass p = {n, m, d, root, x, x2, v, y, y2};
    for (Int start = 0; start < m; start += WIDTH) {
        Vector squares[VECTORS];
        Two two[VECTORS];
        NAME(load)(&p, start, work);
        NAME(load_squares)(&p, start, squares);
        NAME(two_of)(&p, work, squares, two);
        for (Int s = 0; s < WIDTH && start + s < m; s++) {
            const Two *found = &two[s / LANES];
            cell[start + s] = found->place[s % LANES];
            margin[start + s] = found->second[s % LANES] - found->lowest[s % LANES];
        }
    }
}

/* The same of the samples whose margin is not above a bound, in place: `margin` (m) and `cell` (m). Which they are, in
`close` (m); returned is how many. `work` holds d WIDTH numbers. */
EXPORT Int NAME(renewed)(Int n, Int m, Int d, Int root, double bound, const REAL *x, const REAL *x2, const REAL *v,
                         const REAL *y, const REAL *y2, REAL *work, Int *cell, REAL *margin, Int *close) {
    Pass p = {n, m, d, root, x, x2, v, y, y2};
    Int found = 0, done = 0;
    for (Int k = 0; k < m; k++) { /* without a branch */
        close[found] = k;
        found += !(margin[k] > bound);
    }
    for (; done < found; done += WIDTH) {
        Int count = found - done < WIDTH ? found - done : WIDTH;
        Vector squares[VECTORS];
        Two two[VECTORS];
        REAL held[WIDTH] = {0};
        memset(work, 0, sizeof(REAL) * d * WIDTH);
        for (Int s = done + WIDTH; s < done + 2 * WIDTH && s < found; s++) /* rows that lie anywhere are waited for */
            for (Int k = 0; k < d && k < AHEAD * LINE / (Int)sizeof(REAL); k += LINE / (Int)sizeof(REAL))
                FETCH(y + close[s] * d + k);
        for (Int s = 0; s < count; s++) {
            const REAL *row = y + close[done + s] * d;
            for (Int k = 0; k < d; k++)
                work[k * WIDTH + s] = -2 * row[k];
            if (root)
                held[s] = y2[close[done + s]];
        }
        memcpy(squares, held, sizeof held);
        NAME(two_of)(&p, work, squares, two);
        for (Int s = 0; s < count; s++) {
            const Two *one = &two[s / LANES];
            cell[close[done + s]] = one->place[s % LANES];
            margin[close[done + s]] = one->second[s % LANES] - one->lowest[s % LANES];
        }
    }
    return found;
}

/* The points of a pass, filled up to a multiple of POINTS, in `room` of (n + POINTS) (d + 2) numbers. */
INLINE REAL *NAME(fill)(Pass *p, Int n, const REAL *x, const double *v, REAL *room) {
    Int d = p->d, filled = (n + POINTS - 1) / POINTS * POINTS;
    REAL *points = room, *x2 = points + filled * d, *heights = x2 + filled;
    memcpy(points, x, sizeof(REAL) * n * d);
    memset(points + n * d, 0, sizeof(REAL) * (filled - n) * d);
    for (Int i = 0; i < filled; i++) {
        REAL sum = 0;
        for (Int k = 0; k < d; k++)
            sum += points[i * d + k] * points[i * d + k];
        x2[i] = sum;
        heights[i] = i < n ? (REAL)v[i] : (REAL)-INFINITY;
    }
    p->n = filled, p->x = points, p->x2 = x2, p->v = heights;
    return heights + filled;
}

/* Of each sample from `first` to `m` the point nearest in c - v, `cell` (m), unless those are `known`, and c - v there,
from differences in double, `transform` (m); of each point the weights of the samples of its cell, added up, `mass` (n),
and the gradient of the costs times these weights, `gradient` (n, d); and the means of `transform` and of its square,
`moments` (2). All weights are 1 / count where `weight` is NULL. `work` holds (n + POINTS) (d + 2) + d WIDTH numbers. */
EXPORT void NAME(assigned)(Int n, Int first, Int m, Int d, Int root, Int known, Int count, const REAL *x,
                           const double *v, const REAL *y, const REAL *y2, const double *weight, REAL *work,
                           Int *cell, double *transform, double *mass, double *gradient, double *moments) {
    Pass p = {0, m, d, root, NULL, NULL, NULL, y, y2};
    REAL *table = NAME(fill)(&p, n, x, v, work);
    double value = 0, power = 0;
    memset(mass, 0, sizeof(double) * n);
    memset(gradient, 0, sizeof(double) * n * d);
    for (Int start = first; start < m; start += WIDTH) {
        Vector squares[VECTORS];
        Two two[VECTORS];
        if (!known) {
            NAME(load)(&p, start, table);
            NAME(load_squares)(&p, start, squares);
            NAME(two_of)(&p, table, squares, two);
        }
        for (Int s = start; s < start + WIDTH && s < m; s++) {
            Int i = known ? cell[s] : two[(s - start) / LANES].place[(s - start) % LANES];
            const REAL *from = y + s * d, *to = x + i * d;
            double sum = 0, *sums = gradient + i * d;
            ADD_SQUARES(double, (double)to[c] - from[c]);
            double cost = root ? sqrt(sum) : sum, part = weight ? weight[s] : 1;
            double slope = !root ? part : cost > 0 ? part / cost : 0;
#pragma omp simd
            for (Int k = 0; k < d; k++)
                sums[k] += slope * ((double)to[k] - from[k]);
            cell[s] = i;
            transform[s] = cost - v[i];
            value += part * transform[s];
            power += part * (transform[s] * transform[s]);
            mass[i] += part;
        }
    }
    double each = weight ? 1 : 1.0 / count;
    for (Int i = 0; i < n; i++) {
        mass[i] = weight ? mass[i] : mass[i] / count;
        for (Int k = 0; k < d; k++)
            gradient[i * d + k] *= (root ? 1 : 2) * each;
    }
    moments[0] = value * each;
    moments[1] = power * each;
}

/* Terms of the series of 2^z about 0. */
INLINE void NAME(fill_series)(REAL *series) {
    double term = 1;
    for (Int k = 0; k < SERIES; k++) {
        series[k] = (REAL)term;
        term *= 0.693147180559945309417 / (k + 1);
    }
}

/* 2^z of numbers from LOWEST_POWER to 0. */
INLINE Vector NAME(power)(Vector z, const REAL *series) {
    const REAL shift = (REAL)1.5 * ((WORD)1 << MANTISSA); /* added, it leaves the nearest integer in the last bits */
    Vector shifted = z + shift, rest = z - (shifted - shift);
    Vector sum = NAME(all)(series[SERIES - 1]);
    for (Int k = SERIES - 2; k >= 0; k--)
        sum = sum * rest + series[k];
    return (Vector)((Mask)sum + ((Mask)shifted << MANTISSA)); /* the bits of the constant fall out at the top */
}

INLINE REAL NAME(sum)(Vector r) {
    REAL held[LANES];
    memcpy(held, &r, sizeof held);
    for (Int half = LANES / 2; half; half /= 2)
        for (Int l = 0; l < half; l++)
            held[l] += held[l + half];
    return held[0];
}

INLINE void NAME(keep_block)(const Pass *p, const REAL *table, const Vector *squares, int root, Vector *r,
                                Vector *lowest) {
    for (Int a = 0; a < VECTORS; a++)
        lowest[a] = NAME(all)(INFINITY);
    for (Int i = 0; i < p->n; i += POINTS) {
        Vector some[POINTS][VECTORS];
        NAME(reduce)(p, table, squares, i, root, some);
        for (Int q = 0; q < POINTS; q++)
            for (Int a = 0; a < VECTORS; a++) {
                lowest[a] = NAME(smaller)(some[q][a], lowest[a]);
                r[(i + q) * VECTORS + a] = some[q][a];
            }
    }
}

/* c - v of all points and a block of samples, `kept` (n, WIDTH), and the least of each sample. */
INLINE void NAME(keep)(const Pass *p, Int start, REAL *table, Vector *kept, Vector *lowest) {
    Vector squares[VECTORS];
    NAME(load)(p, start, table);
    NAME(load_squares)(p, start, squares);
    if (p->root)
        NAME(keep_block)(p, table, squares, 1, kept, lowest);
    else
        NAME(keep_block)(p, table, squares, 0, kept, lowest);
}

/* Whether a number of one of the masks is not zero. */
INLINE Int NAME(any)(const Mask *masks) {
    Mask all = masks[0];
    for (Int a = 1; a < VECTORS; a++)
        all |= masks[a];
    Int words[BYTES / sizeof(Int)], any = 0;
    memcpy(words, &all, sizeof words);
    for (Int w = 0; w < (Int)(BYTES / sizeof(Int)); w++)
        any |= words[w];
    return any != 0;
}

/* Of a block of samples exp((lowest - (c - v)) / eta), in place, for the points that give some sample more than 2^least of
its largest, which come first: their places `near`; and the sums of these. Returns how many points they are. Of samples
that lie next to each other these are few, where there are many points. */
INLINE Int NAME(exponentials)(Int used, Vector *kept, const Vector *lowest, REAL rate, REAL least,
                              const REAL *series, Vector *sum, int32_t *near) {
    Int number = 0;
    for (Int i = 0; i < used; i++) { /* without a branch */
        Mask counts[VECTORS];
        for (Int a = 0; a < VECTORS; a++) {
            Vector z = (lowest[a] - kept[i * VECTORS + a]) * rate;
            counts[a] = z > NAME(all)(least);
            kept[number * VECTORS + a] = z;
        }
        near[number] = (int32_t)i;
        number += NAME(any)(counts);
    }
    for (Int a = 0; a < VECTORS; a++)
        sum[a] = NAME(all)(0);
    for (Int h = 0; h < number; h++)
        for (Int a = 0; a < VECTORS; a++) {
            Vector z = NAME(larger)(kept[h * VECTORS + a], NAME(all)((REAL)LOWEST_POWER));
            kept[h * VECTORS + a] = NAME(power)(z, series);
            sum[a] += kept[h * VECTORS + a];
        }
    return number;
}

/* Appends the shares of a block's samples that are more than their `limit` (WIDTH), times `factor` (WIDTH): their places `col`
and values `share`, from `filled` on, and how many each sample has, `count`. Points `near` (number) have the shares `kept`;
`words` has room for a bit of each point and sample. Returns what is filled then. */
INLINE Int NAME(append)(Int samples, Int number, Int filled, const Vector *kept, const int32_t *near, const REAL *limit,
                        const REAL *factor, Mask *words, int32_t *count, int32_t *col, REAL *share) {
    enum { BITS = 8 * sizeof(WORD), WORDS = 64 / BITS };
    Vector bound[VECTORS];
    memcpy(bound, limit, sizeof bound);
    for (Int first = 0; first < number; first += BITS) {
        Mask bits[VECTORS] = {{0}};
        for (Int h = first; h < first + BITS && h < number; h++)
            for (Int a = 0; a < VECTORS; a++)
                bits[a] |= (kept[h * VECTORS + a] > bound[a]) & (WORD)((uint64_t)1 << (h - first));
        for (Int a = 0; a < VECTORS; a++)
            words[first / BITS * VECTORS + a] = bits[a];
    }
    for (Int s = 0; s < samples; s++) {
        Int before = filled;
        for (Int first = 0; first < number && limit[s] < INFINITY; first += 64) {
            const WORD *bits = (const WORD *)words + first / BITS * WIDTH + s;
            uint64_t left = 0;
            for (Int w = 0; w < WORDS && first + w * BITS < number; w++)
                left |= ((uint64_t)bits[w * WIDTH] & (~(uint64_t)0 >> (64 - BITS))) << w * BITS;
            for (; left; left &= left - 1) {
                Int h = first + __builtin_ctzll(left);
                col[filled] = near[h];
                share[filled++] = ((const REAL *)kept)[h * WIDTH + s] * factor[s];
            }
        }
        count[s] = (int32_t)(filled - before);
    }
    return filled;
}

/* Of each sample the least c - v, `lowest` (m), and the sum `total` (m) over the points of exp((lowest - (c - v)) / eta),
`rate` being 1 / (eta log 2); of each of the `used` points that are not there to fill up `mass`, the sum over the samples
of weight times its part of the total. `work` holds (d + 3 n / 2 + n / 32 + 1) WIDTH numbers and n
of places.

Of samples with a total above `decided`, one after the other, the parts of it that are more than SHARED of the largest, times
the root of the weight: their number `count` (m), points `col` and values `share`, which have space for `most` of them a sample
and 2 n WIDTH. Returned is how many there are, or -1 if many samples have more than `most`; below 0 none are looked for. */
EXPORT Int NAME(soft)(Int n, Int m, Int d, Int root, Int used, double rate, double decided, Int most, const REAL *x,
                      const REAL *x2, const REAL *v, const REAL *y, const REAL *y2, REAL *work, REAL *lowest,
                      REAL *total, const double *weight, double *mass, int32_t *count, int32_t *col, REAL *share) {
    Pass p = {n, m, d, root, x, x2, v, y, y2};
    Vector *kept = (Vector *)(work + d * WIDTH);
    Vector *sums = kept + n * VECTORS;
    Mask *words = (Mask *)(sums + n);
    int32_t *near = (int32_t *)(words + (n + 31) / 32 * VECTORS);
    Int filled = most < 0 ? -1 : 0, blocks = 0;
    REAL series[SERIES];
    NAME(fill_series)(series);
    memset(mass, 0, sizeof(double) * used);
    memset(sums, 0, sizeof(Vector) * used);
    for (Int start = 0; start < m; start += WIDTH) {
        Int samples = m - start < WIDTH ? m - start : WIDTH;
        Vector least[VECTORS], sum[VECTORS], part[VECTORS] = {{0}};
        REAL limit[WIDTH], factor[WIDTH];
        NAME(keep)(&p, start, work, kept, least);
        Int number = NAME(exponentials)(used, kept, least, (REAL)rate, (REAL)LOWEST_POWER, series, sum, near);
        for (Int s = 0; s < WIDTH; s++)
            limit[s] = INFINITY;
        for (Int s = 0; s < samples; s++) {
            lowest[start + s] = least[s / LANES][s % LANES];
            total[start + s] = sum[s / LANES][s % LANES];
            part[s / LANES][s % LANES] = (REAL)(weight[start + s] / total[start + s]);
            limit[s] = total[start + s] > decided ? SHARED : INFINITY;
            factor[s] = (REAL)(sqrt(weight[start + s]) / total[start + s]);
        }
        for (Int h = 0; h < number; h++) {
            Vector held = kept[h * VECTORS] * part[0];
            for (Int a = 1; a < VECTORS; a++)
                held += kept[h * VECTORS + a] * part[a];
            sums[near[h]] += held;
        }
        if (++blocks % SUMMED_BLOCKS == 0 || start + WIDTH >= m)
            for (Int i = 0; i < used; i++) {
                mass[i] += NAME(sum)(sums[i]);
                sums[i] = NAME(all)(0);
            }
        if (filled >= 0)
            filled = NAME(append)(samples, number, filled, kept, near, limit, factor, words, count + start, col, share);
        if (filled > most * (start + samples) + n * WIDTH)
            filled = -1;
    }
    return filled;
}

/* Adds to the rows `near` (number) of `sums` (used, row) of doubles, in `count` vectors from `first` on, the rows of a
block's samples (WIDTH, row) times what these points have of them. */
INLINE void NAME(add_rows)(Int number, const int32_t *near, Int row, Int first, Int count, const REAL *share,
                           const REAL *rows, double *sums) {
    for (Int h = 0; h < number; h++) {
        Vector sum[ROW_VECTORS];
        for (Int c = 0; c < count; c++)
            sum[c] = NAME(all)(0);
        for (Int s = 0; s < WIDTH; s++)
            for (Int c = 0; c < count; c++)
                sum[c] += share[h * WIDTH + s] * *(const Vector *)(rows + s * row + first + c * LANES);
        REAL held[ROW_VECTORS * LANES];
        memcpy(held, sum, sizeof(Vector) * count);
        double *to = sums + near[h] * row + first;
#pragma omp simd
        for (Int l = 0; l < count * LANES; l++)
            to[l] += held[l];
    }
}

/* The same, but for masses: `sums` (used, row) of doubles holds for each point the samples times what it has of their
weights, and these weights; row is d + 1, rounded up to vectors. Returned is the sum of the least c - v, with the weights
of the samples. What is less than floats of the sums resolve is left out. `work` holds (d + n + row) WIDTH numbers and n of places.
*/
EXPORT double NAME(moments)(Int n, Int m, Int d, Int root, Int used, double rate, Int row, const REAL *x, const REAL *x2,
                          const REAL *v, const REAL *y, const REAL *y2, REAL *work, const double *weight,
                          double *sums) {
    Pass p = {n, m, d, root, x, x2, v, y, y2};
    Vector *kept = (Vector *)(work + d * WIDTH);
    REAL *rows = (REAL *)(kept + n * VECTORS);
    int32_t *near = (int32_t *)(rows + row * WIDTH);
    memset(sums, 0, sizeof(double) * used * row);
    memset(rows, 0, sizeof(REAL) * WIDTH * row);
    double total = 0;
    REAL series[SERIES];
    NAME(fill_series)(series);
    REAL least_power = sizeof(REAL) == 4 ? -24 : (REAL)LOWEST_POWER; /* half a unit in the last place of a float */
    for (Int start = 0; start < m; start += WIDTH) {
        Int samples = m - start < WIDTH ? m - start : WIDTH;
        Vector least[VECTORS], sum[VECTORS];
        NAME(keep)(&p, start, work, kept, least);
        Int number = NAME(exponentials)(used, kept, least, (REAL)rate, least_power, series, sum, near);
        for (Int s = 0; s < samples; s++)
            total += weight[start + s] * least[s / LANES][s % LANES];
        for (Int s = 0; s < WIDTH; s++) {
            REAL part = s < samples ? (REAL)(weight[start + s] / sum[s / LANES][s % LANES]) : 0;
            for (Int k = 0; k < d; k++)
                rows[s * row + k] = s < samples ? part * y[(start + s) * d + k] : 0;
            rows[s * row + d] = part;
        }
        Int first = 0;
        for (; first + ROW_VECTORS * LANES <= row; first += ROW_VECTORS * LANES)
            NAME(add_rows)(number, near, row, first, ROW_VECTORS, (const REAL *)kept, rows, sums);
        for (; first < row; first += LANES)
            NAME(add_rows)(number, near, row, first, 1, (const REAL *)kept, rows, sums);
    }
    return total;
}

/* Of each sample the least c - v, `lowest`, and which of the `used` points have one no more than `within` above it: their
number `count`, and one sample after the other their places `col` and c - v, `found`. Ends before a block of samples for which
`room`, the entries that these hold, may be too small; returns the number of samples done. `work` holds (d + n) WIDTH
numbers and n of places. */
EXPORT Int NAME(lists)(Int n, Int m, Int d, Int root, Int used, Int room, const REAL *x, const REAL *x2, const REAL *v,
                       const REAL *y, const REAL *y2, REAL *work, const REAL *within, REAL *lowest,
                       int32_t *count, int32_t *col, REAL *found) {
    Pass p = {n, m, d, root, x, x2, v, y, y2};
    Vector *kept = (Vector *)(work + d * WIDTH);
    int32_t *near = (int32_t *)(kept + n * VECTORS);
    Int filled = 0;
    for (Int start = 0; start < m; start += WIDTH) {
        Int samples = m - start < WIDTH ? m - start : WIDTH, number = 0, place[WIDTH];
        Vector bound[VECTORS];
        Mask counted[VECTORS] = {{0}};
        NAME(keep)(&p, start, work, kept, bound);
        REAL limit[WIDTH];
        memcpy(limit, bound, sizeof limit);
        memcpy(lowest + start, limit, sizeof(REAL) * samples);
        for (Int s = 0; s < WIDTH; s++)
            limit[s] = s < samples ? limit[s] + within[start + s] : -INFINITY;
        memcpy(bound, limit, sizeof limit);
        for (Int i = 0; i < used; i++) { /* those of no sample are passed over without a branch */
            Mask hits[VECTORS];
            for (Int a = 0; a < VECTORS; a++) {
                hits[a] = kept[i * VECTORS + a] <= bound[a];
                counted[a] -= hits[a];
            }
            near[number] = (int32_t)i;
            number += NAME(any)(hits);
        }
        Int all = 0;
        for (Int s = 0; s < samples; s++) {
            place[s] = filled + all;
            all += counted[s / LANES][s % LANES];
        }
        if (all > room - filled)
            return start;
        for (Int s = 0; s < samples; s++)
            count[start + s] = (int32_t)counted[s / LANES][s % LANES];
        filled += all;
        for (Int h = 0; h < number; h++) {
            const REAL *r = (const REAL *)(kept + near[h] * VECTORS);
            for (Int s = 0; s < samples; s++)
                if (r[s] <= limit[s]) {
                    col[place[s]] = near[h];
                    found[place[s]++] = r[s];
                }
        }
    }
    return m;
}

/* A point, and its c - v. */
typedef struct {
    REAL reduced;
    int32_t place;
} NAME(Found);
#define Found NAME(Found)

/* Rearranges: the `count` lowest first, the highest of these last among them. Source: Hoare (1961), algorithm 65. */
static void NAME(lowest_first)(Found *found, Int size, Int count) {
    Int low = 0, high = size - 1;
    while (low < high) {
        REAL pivot = found[(low + high) / 2].reduced;
        Int i = low, j = high;
        while (i <= j) {
            while (found[i].reduced < pivot)
                i++;
            while (found[j].reduced > pivot)
                j--;
            if (i <= j) {
                Found swapped = found[i];
                found[i++] = found[j];
                found[j--] = swapped;
            }
        }
        if (count - 1 <= j)
            high = j;
        else if (count - 1 >= i)
            low = i;
        else
            return;
    }
}

/* Of each sample the points that are lowest in c - v, as many as `ends` (m + 1) leaves room for, in any order: their places
`col` and c - v, `found`, from ends[k] to ends[k + 1] - 1. `work` holds d WIDTH numbers, `held` twice the points sought for
each sample of a block. */
EXPORT void NAME(several_nearest)(Int n, Int m, Int d, Int root, const REAL *x, const REAL *x2, const REAL *v,
                                  const REAL *y, const REAL *y2, REAL *work, const Int *ends, Found *held,
                                  int32_t *col, REAL *found) {
    Pass p = {n, m, d, root, x, x2, v, y, y2};
    for (Int start = 0; start < m; start += WIDTH) {
        Int samples = m - start < WIDTH ? m - start : WIDTH, count[WIDTH], number[WIDTH] = {0};
        Found *of[WIDTH], *next = held;
        REAL limit[WIDTH]; /* lower ones are among the lowest so far */
        Vector squares[VECTORS], bound[VECTORS], r[POINTS][VECTORS];
        for (Int s = 0; s < WIDTH; s++) {
            count[s] = s < samples ? ends[start + s + 1] - ends[start + s] : 0;
            limit[s] = count[s] ? INFINITY : -INFINITY;
            of[s] = next;
            next += 2 * count[s];
        }
        memcpy(bound, limit, sizeof limit);
        NAME(load)(&p, start, work);
        NAME(load_squares)(&p, start, squares);
        for (Int i = 0; i < n; i += POINTS) {
            Mask hits[VECTORS] = {{0}};
            if (root)
                NAME(reduce)(&p, work, squares, i, 1, r);
            else
                NAME(reduce)(&p, work, squares, i, 0, r);
            for (Int q = 0; q < POINTS; q++)
                for (Int a = 0; a < VECTORS; a++)
                    hits[a] |= r[q][a] < bound[a];
            if (!NAME(any)(hits))
                continue;
            for (Int s = 0; s < samples; s++)
                for (Int q = 0; q < POINTS && hits[s / LANES][s % LANES]; q++) {
                    REAL value = r[q][s / LANES][s % LANES];
                    if (!(value < limit[s]))
                        continue;
                    of[s][number[s]++] = (Found){value, (int32_t)(i + q)};
                    if (number[s] == 2 * count[s]) {
                        NAME(lowest_first)(of[s], number[s], count[s]);
                        number[s] = count[s];
                        limit[s] = of[s][count[s] - 1].reduced;
                    }
                }
            memcpy(bound, limit, sizeof limit);
        }
        for (Int s = 0; s < samples; s++) {
            NAME(lowest_first)(of[s], number[s], count[s]);
            for (Int e = 0; e < count[s]; e++) {
                col[ends[start + s] + e] = of[s][e].place;
                found[ends[start + s] + e] = of[s][e].reduced;
            }
        }
    }
}

/* Costs of samples at the `used` points, `cost` (m, used) of doubles, for v = 0; `squares` (m) are those of their norms.
`work` holds (d + n) WIDTH numbers. */
EXPORT void NAME(costs)(Int n, Int m, Int d, Int root, Int used, const REAL *x, const REAL *x2, const REAL *v,
                        const REAL *y, const REAL *y2, REAL *work, const REAL *squares, double *cost) {
    Pass p = {n, m, d, root, x, x2, v, y, y2};
    Vector *kept = (Vector *)(work + d * WIDTH);
    for (Int start = 0; start < m; start += WIDTH) {
        Vector least[VECTORS];
        NAME(keep)(&p, start, work, kept, least);
        for (Int s = 0; s < WIDTH && start + s < m; s++) {
            const REAL *its = (const REAL *)kept + s;
            REAL square = root ? 0 : squares[start + s];
            for (Int i = 0; i < used; i++) {
                REAL c = its[i * WIDTH] + square;
                cost[(start + s) * used + i] = c > 0 ? c : 0;
            }
        }
    }
}

#undef Found
#undef Vector
#undef Mask
#undef Pass
#undef Two
#undef LANES
#undef WIDTH

#endif
