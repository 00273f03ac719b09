/* Flows on the costs of all pairs of n points and k samples: `all_pairs.py` loads this and says what it is for.

Where much mass is in wrong cells, flows on a part of the samples come first, as in multiscale transport: their potential
leaves a tenth of the pivots on all samples, or fewer. Source: Merigot (2011), Computer Graphics Forum 30(5). */

#include <stdlib.h>
#include <string.h>

#include "network_simplex.h"

enum { FEW_CELLS = 32 }; /* up to which the nearest is found in one go without branches: in half to a quarter of the time */
enum { THINNER = 4 };    /* each of the flows before the last has so many times fewer samples than the next */
enum { COARSEST = 8 };   /* samples a point in the first of them, at least */
/* Part of the samples that a potential fitted to earlier cells may leave in wrong ones: with heavy tails it leaves 0.6 to 1,
and from there a flow took 3 times as long as after flows on a part of the samples; between clusters it leaves 0 to 0.5. */
static const double MOST_AWAY = 0.5;

static Int place_of(const double *row, const double *v, double reduced) {
    Int j = 0;
    while (row[j] - v[j] > reduced) j++;
    return j;
}

static Int first_least(const double *row, const double *v, Int n) {
    Int j = 0;
    double found = row[0] - v[0];
    for (Int i = 1; i < n; i++) {
        double its = row[i] - v[i];
        int is_less = its < found;
        found = is_less ? its : found;
        j = is_less ? i : j;
    }
    return j;
}

/* Of each sample (k) the cell that is nearest in c - v, and c - v there; costs (k, n). */
EXPORT void nearest_cells(Int n, Int k, const double *cost, const double *v, Int *cell, double *reduced) {
    for (Int s = 0; s < k; s++) {
        const double *row = cost + s * n;
        cell[s] = n > FEW_CELLS ? place_of(row, v, least(row, v, n)) : first_least(row, v, n);
        reduced[s] = row[cell[s]] - v[cell[s]];
    }
}

/* The plan of a flow on all costs (k, n), whose arguments these are: its entries, in `rows`, `cols` and `masses`, and its
cost. `received` (n) is what each point has of it. Returns the number of entries. */
static Int write_plan(Int n, Int k, const double *cost, const Int *home, const double *home_mass, const double *home_cost,
                      const Int *link, const double *link_mass, Int *rows, Int *cols, double *masses, double *received,
                      double *value) {
    Int entries = 0;
    *value = 0;
    memset(received, 0, n * sizeof(double));
    for (Int at = 0; at < k + n; at++) {
        int at_home = at < k;
        Int s = at_home ? at : link[at - k], j = at_home ? home[at] : at - k;
        double mass = at_home ? home_mass[at] : link_mass[at - k];
        if (s < 0 || !(mass > 0)) continue;
        rows[entries] = s, cols[entries] = j, masses[entries++] = mass;
        received[j] += mass;
        *value += mass * (at_home ? home_cost[s] : cost[s * n + j]);
    }
    return entries;
}

/* The mass of cells of samples (k) less the weights `b`, `excess` (n). Returns how much of it is in wrong cells. */
static double weigh_cells(Int n, Int k, const double *a, const double *b, const Int *cell, double *excess) {
    double wrong = 0;
    memset(excess, 0, n * sizeof(double));
    for (Int s = 0; s < k; s++) excess[cell[s]] += a[s];
    for (Int j = 0; j < n; j++) excess[j] -= b[j], wrong += fabs(excess[j]) / 2;
    return wrong;
}

/* Subtract the mean b v from a potential (n). */
static void centre(Int n, const double *b, double *v) {
    double mean = 0;
    for (Int j = 0; j < n; j++) mean += b[j] * v[j];
    for (Int j = 0; j < n; j++) v[j] -= mean;
}

/* Arrays for flows on all costs of up to k samples, as `network_simplex` takes them. */
typedef struct {
    Int *home, *link;
    double *home_mass, *home_cost, *link_mass, *excess;
} Flow;

/* The cells of k samples at a potential, and their excess. Returns how much mass is in wrong ones. */
static double find_cells(const Flow *f, Int n, Int k, const double *cost, const double *a, const double *b, const double *v) {
    nearest_cells(n, k, cost, v, f->home, f->home_cost);
    return weigh_cells(n, k, a, b, f->home, f->excess);
}

/* The flow from these cells of samples of masses `a` (k). Returns as `network_simplex`. */
static Int run_flow(const Flow *f, Int n, Int k, const double *cost, const double *a, double tolerance, double fits,
                    double *v) {
    for (Int s = 0; s < k; s++) f->home_cost[s] = cost[s * n + f->home[s]];
    return network_simplex(n, k, cost, NULL, NULL, f->excess, tolerance, fits, a, f->home, f->home_mass, f->home_cost,
                           f->link, f->link_mass, v);
}

/* Find a potential near the best of k samples by flows on every so many of them, on more each time; all of `f` is written
to. Returns 0, or NO_MEMORY. */
static Int coarse_to_fine(const Flow *f, Int n, Int k, const double *cost, const double *a, const double *b, double tolerance,
                          double *v) {
    Int every = THINNER;
    while (every * THINNER * COARSEST * n <= k) every *= THINNER;
    double *some = malloc((k / THINNER + 1) * (n + 1) * sizeof(double));
    Int failed = !some;
    for (; every > 1 && !failed; every /= THINNER) {
        Int rows = (k + every - 1) / every;
        double *mass = some + rows * n, sum = 0;
        for (Int r = 0; r < rows; r++) {
            memcpy(some + r * n, cost + r * every * n, n * sizeof(double));
            mass[r] = a[r * every], sum += mass[r];
        }
        if (!(sum > 0)) continue;
        for (Int r = 0; r < rows; r++) mass[r] /= sum;
        find_cells(f, n, rows, some, mass, b, v);
        failed = run_flow(f, n, rows, some, mass, tolerance, 0, v) < 0;
    }
    free(some);
    return failed ? NO_MEMORY : 0;
}

/* The flow of one problem, from where `solve_pairs` says; `before` (n) is written to. Returns as `network_simplex`. */
static Int flow_from_best(const Flow *f, Int n, Int k, const double *cost, const double *a, const double *b, double tolerance,
                          double many, const Int *earlier, double *v, double *before) {
    double wrong = find_cells(f, n, k, cost, a, b, v);
    memcpy(before, v, n * sizeof(double));
    if (wrong > many) {
        memset(v, 0, n * sizeof(double));
        double at_zero = find_cells(f, n, k, cost, a, b, v);
        if (at_zero < wrong) wrong = at_zero, memset(before, 0, n * sizeof(double));
    }
    if (wrong > many) {
        memcpy(v, before, n * sizeof(double));
        Int is_large = k >= THINNER * COARSEST * n;
        if (earlier) {
            memcpy(f->home, earlier, k * sizeof(Int));
            weigh_cells(n, k, a, b, f->home, f->excess);
            Int pivots = run_flow(f, n, k, cost, a, tolerance, is_large ? MOST_AWAY : 1, v);
            if (pivots != LOST) return pivots;
            memcpy(v, before, n * sizeof(double));
        }
        if (is_large && coarse_to_fine(f, n, k, cost, a, b, tolerance, v)) return NO_MEMORY;
        if (find_cells(f, n, k, cost, a, b, v) > wrong) { /* as where a few samples hold most of the mass */
            memcpy(v, before, n * sizeof(double));
            find_cells(f, n, k, cost, a, b, v);
        }
    }
    return run_flow(f, n, k, cost, a, tolerance, 0, v);
}

/* Solve `count` problems of one shape, one after the other: on costs (count, k, n), for masses `a` (count, k) and weights
`b` (count, n), from the cells at the potentials `v` (count, n), which come back as those of the plans, with mean b v = 0.
Where more of the mass than `many` is in wrong cells there, from those at zero, if less is; and where still more is, from
`earlier` cells (count, k), those of plans of nearby points, if they are not NULL and not lost, or else from a potential of
fewer samples, where there are enough for that.

Plans: `pivots` (count); `sizes` (count) entries each, one plan after the other in `rows`, `cols` and `masses`
(count (k + n)); their costs `value` (count), and `wrong` (count), the largest error of the mass that a point receives.
Cells of the potentials: the nearest point `cell`, c - v there, `reduced`, and c, `cell_cost` (count, k); masses
`cell_mass` (count, n). Returns 0, or -1 where there is not enough memory. */
EXPORT Int solve_pairs(Int count, Int n, Int k, const double *cost, const double *a, const double *b, double tolerance,
                       double many, const Int *earlier, double *v, Int *pivots, Int *sizes, Int *rows, Int *cols,
                       double *masses, double *value, double *wrong, Int *cell, double *reduced, double *cell_cost,
                       double *cell_mass) {
    double *numbers = malloc((2 * k + 3 * n) * sizeof(double));
    Int *indices = malloc((k + n) * sizeof(Int)), failed = !numbers || !indices;
    double *home_mass = numbers, *home_cost = home_mass + k, *link_mass = home_cost + k, *sums = link_mass + n;
    Int *home = indices, *link = home + k;
    Flow flow = {home, link, home_mass, home_cost, link_mass, sums};
    for (Int pair = 0; pair < count && !failed; pair++) {
        pivots[pair] = flow_from_best(&flow, n, k, cost, a, b, tolerance, many, earlier, v, sums + n);
        failed = pivots[pair] < 0;
        if (failed) break;
        sizes[pair] = write_plan(n, k, cost, home, home_mass, home_cost, link, link_mass, rows, cols, masses, sums, value);
        *wrong = 0;
        for (Int j = 0; j < n; j++) *wrong = fmax(*wrong, fabs(sums[j] - b[j])), cell_mass[j] = 0;
        centre(n, b, v);
        centre(n, b, v); /* once more: a start far above the costs has left a mean of its size by rounding */
        nearest_cells(n, k, cost, v, cell, reduced);
        for (Int s = 0; s < k; s++) {
            cell_cost[s] = cost[s * n + cell[s]];
            cell_mass[cell[s]] += a[s];
        }
        rows += sizes[pair], cols += sizes[pair], masses += sizes[pair], value++, wrong++;
        cost += k * n, a += k, b += n, v += n, earlier += earlier ? k : 0;
        cell += k, reduced += k, cell_cost += k, cell_mass += n;
    }
    free(numbers);
    free(indices);
    return failed ? -1 : 0;
}

/* Of each pair of cells the `each` samples that leave the first for the second at the least price, among samples with
costs (k, n) in cells (k), whose numbers start at `first`, and those found before: `price` and `sample` (n, n, each)
hold them, the dearest first, and `dearest` (n, n) its price. */
EXPORT void cheapest_moves(Int n, Int k, const double *cost, const Int *cell, Int first, Int each, double *price,
                           Int *sample, double *dearest) {
    for (Int s = 0; s < k; s++) {
        const double *row = cost + s * n;
        double *limit = dearest + cell[s] * n, base = row[cell[s]];
        if (!count_below(row, base, limit, n)) continue;
        for (Int j = 0; j < n; j++) {
            double its = row[j] - base;
            if (j == cell[s] || !(its < limit[j])) continue;
            Int at = 0, pair = (cell[s] * n + j) * each;
            for (; at + 1 < each && its < price[pair + at + 1]; at++)
                price[pair + at] = price[pair + at + 1], sample[pair + at] = sample[pair + at + 1];
            price[pair + at] = its, sample[pair + at] = first + s;
            limit[j] = price[pair];
        }
    }
}
