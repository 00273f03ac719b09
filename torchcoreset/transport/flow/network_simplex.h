/* What `network_simplex.c` does, and loops that it shares with `all_pairs.c`. */

#include <math.h>
#include <stdint.h>

#include "../compiled.h"

typedef int64_t Int;

enum { NO_MEMORY = -1, LOST = -2 }; /* in place of a number of pivots */

/* The flow, as `network_simplex.py` says. `home` (k) holds the cells at first, and `home_cost` (k) the costs there of samples
that have the masses `mass` (k); `v` (n) is the potential, which is fitted to these cells first where pairs are priced and
`fits` is not 0. On return they describe the plan, with `home_mass` (k), `link` (n) and `link_mass` (n): cell u has
`link_mass[u]` of sample `link[u]`, if that is not negative, beside the samples at home in it. Returns the number of pivots,
NO_MEMORY, or LOST, where more than the part `fits` of the samples have a better place at the potential that was fitted. */
EXPORT Int network_simplex(Int n, Int k, const double *cost, const Int *offsets, const Int *cols, const double *excess,
                           double tolerance, double fits, const double *mass, Int *home, double *home_mass,
                           double *home_cost, Int *link, double *link_mass, double *v);

/* The least c - v of a sample. */
VECTORISED static double least(const double *cost, const double *v, Int n) {
    double found = INFINITY;
#if defined(__GNUC__)
#pragma omp simd reduction(min : found)
#endif
    for (Int j = 0; j < n; j++) {
        double reduced = cost[j] - v[j];
        found = reduced < found ? reduced : found;
    }
    return found;
}

/* How many costs, less `base`, are below their limit. */
VECTORISED static Int count_below(const double *cost, double base, const double *limit, Int n) {
    Int count = 0;
#if defined(__GNUC__)
#pragma omp simd reduction(+ : count)
#endif
    for (Int j = 0; j < n; j++) count += cost[j] - base < limit[j];
    return count;
}
