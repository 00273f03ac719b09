/* Min-cost flow between cells by the primal network simplex: `network_simplex.py` loads this and says what it is for.

n cells, each of a point; k samples; entries: costs of samples at points; v (n) potential of the points.

A basis of the transport problem is a spanning tree of points, samples and an artificial root, whose arcs hold what has
not found its place. With far more samples than points nearly every sample is a leaf: it lies in one cell with all of its
mass. So the tree that is stored has only cells and the samples that several cells share:

    a sample s lies in its home cell:             home[s], home_mass[s], home_cost[s]
    a cell u hangs off a sample that it shares:   link[u], link_mass[u], link_cost[u], the mass and cost of the sample in u
    or off the root:                              link[u] = ROOT, link_mass[u] the flow of the artificial arc

All arcs of the tree are tight: the cost of a sample less the potential is the same in each of its cells.

Sources: Ahuja, Magnanti, Orlin (1993), Network Flows, chapter 11; Cunningham (1976), A network simplex method, for the
leaving arc, which keeps the tree strongly feasible, so that pivots cannot cycle. Differs from them in that

1. leaves are left out of the tree, and a pivot that moves a whole sample to another cell changes no node of it;
2. the artificial arcs start at a potential that is given, and cost little at first: then only short moves pay. They
   become STEEPER times as dear until nothing is left on them;
3. where cells hold many samples, pairs of cells are priced in place of samples: of each pair the cheapest sample to
   leave the first for the second is remembered, and where cells are large the next ones too. Pivots shift potentials of
   whole subtrees, which changes no such price;
4. else all samples are priced in a scan, and those with a better place enter in the order of what they gain, from a
   heap. Of each sample the least reduced cost outside its cell is remembered with the scan that found it. No potential
   has risen by more than `rise` since, so that samples deep inside a cell are not priced again;
5. where the costs are far more than caches hold, most scans look only at a few points near each sample, as in the
   shortlist method (Gottschlich, Schuhmacher 2014, PLoS ONE 9(10)). Scans of all points renew these, and prove the end;
6. it may start from cells that are not those of the potential, which is fitted to them first. */

#include <stdlib.h>
#include <string.h>

#include "network_simplex.h"

enum { ROOT = -1, NOBODY = -1 };
enum { SCANS = 32 }; /* last scans whose potentials are kept */
enum { PAIRS_FROM = 16 }; /* samples a cell from which pairs of cells are priced: with 10, that pays between clusters alone */
enum { LOOKS = 16 }; /* pairs of a cell looked up one by one before all are: one touches an eighth of the memory of all */
enum { SWEEP = 4 }; /* cells for each pivot between two sweeps over all pairs */
enum { KEEP_FROM = 256 }; /* samples a cell from which pairs keep more than one: 2 to 8 times as fast, at 100 slower */
enum { NEAR_FROM = 1 << 21 }; /* costs from which most scans see near points alone: with fewer, all are as fast read */
enum { LANES = 8 };           /* near points of each sample; 16 are no faster */
enum { FEWER = 4 };           /* all points are priced again once near ones give so many times fewer candidates */
enum { LOOKED_AT = 8 };       /* of so many samples one */
enum { FITS = 10 };           /* rounds, at most, in which a potential is fitted to cells: 3, 10 and 100 do about as well */
enum { CHUNK = 16 };          /* samples of a cell that lie side by side */
enum { BLOCK = 64 };          /* pairs looked at together for whether a sample is among the cheapest of one */

static const double FIRST = 1.0 / 64;  /* largest price at first: cost of the artificial arcs */
static const double STEEPER = 4;
static const double ROUNDING = 2e-15;  /* part of the numbers it comes from: a reduced cost below it is none */

/* A sample with a better place: its cost there, and the reduced cost, at most what it is now but for later pivots. */
typedef struct {
    double reduced, cost;
    Int sample, point;
} Candidate;

/* A point near a sample, at its cost. */
typedef struct {
    double cost;
    Int point;
} Near;

/* A sample that may leave a cell for another, at a price: its cost there less that at home. */
typedef struct {
    double price;
    Int sample;
} Move;

typedef struct {
    Int n, k;
    const double *cost;        /* (k, n), or those of the entries of lists */
    const Int *offsets, *cols; /* where the list of each sample begins, (k + 1), and the points listed; NULL: all */
    /* Samples */
    Int *home;
    double *home_mass, *home_cost;
    Int *first_cell;           /* of those that hang off the sample */
    Int *next_shared, *previous_shared; /* other shared samples of its home */
    double *outside;           /* least c - v outside its home, in the scan `priced` of all points; -inf: unknown */
    Int *priced;
    Near *near;                /* (k, LANES) of every LANES-th point the nearest when all were last priced, or NULL */
    /* Cells; (n + 1) with the root */
    double *v, *at_root;       /* potential, and that at the start */
    Int *link;
    double *link_mass, *link_cost;
    Int *next_cell, *previous_cell; /* others that hang off the same */
    Int *first_shared;         /* shared samples at home here; of the root, the first cell that hangs off it */
    Int *depth;                /* even of cells; a shared sample is one below its home */
    char *lacks;               /* whether its artificial arc brings mass, else takes it */
    Int *stack;
    /* Scans */
    Candidate *candidates;     /* (k) of which a heap */
    Int scan;
    double *past, *rise;       /* (SCANS, n) potentials of the last scans; (SCANS) largest rise of a potential since */
    /* Pairs of cells; NULL where samples are priced */
    double *price;             /* (n, n) least price of a sample of the first in the second; at most that, if it has left */
    Int *cheapest;             /* (n, n) that sample, or NOBODY */
    double *gain;              /* (n) largest gain of a sample of each cell, when it was last looked at */
    Int *looks;                /* (n) pairs of each cell that have been looked up since all were */
    Int keeps;                 /* moves kept of each pair at most; 0: none are */
    Move *kept;                /* (n, n, keeps) the cheapest, the dearest first; some samples may have left since */
    Int *count;                /* (n, n) how many these are */
    double *beyond;            /* (n, n) what others cost at least; -inf where none are kept */
    /* Samples at home in each cell, in chunks: of a cell all are full but the last */
    Int *last_chunk, *filled;  /* (n) the last chunk of each cell, or NOBODY, and how many samples are in it */
    Int *chunk_before;         /* of each chunk, or NOBODY; of a free chunk the next that is free */
    Int *inside, *place;       /* (chunks, CHUNK) samples, and where each of them is (k) */
    Int free_chunk;
    Int pivots;
} Tree;

/* The tree: who hangs off whom */

static void add_shared(Tree *t, Int s) {
    Int home = t->home[s], next = t->first_shared[home];
    t->previous_shared[s] = NOBODY;
    t->next_shared[s] = next;
    if (next != NOBODY) t->previous_shared[next] = s;
    t->first_shared[home] = s;
}

static void remove_shared(Tree *t, Int s) {
    Int next = t->next_shared[s], previous = t->previous_shared[s];
    if (previous != NOBODY) t->next_shared[previous] = next;
    else t->first_shared[t->home[s]] = next;
    if (next != NOBODY) t->previous_shared[next] = previous;
}

static void attach(Tree *t, Int u, Int s, double mass, double cost) {
    Int *first = s == ROOT ? &t->first_shared[t->n] : &t->first_cell[s];
    if (s != ROOT && *first == NOBODY) add_shared(t, s);
    t->link[u] = s;
    t->link_mass[u] = mass;
    t->link_cost[u] = cost;
    t->previous_cell[u] = NOBODY;
    t->next_cell[u] = *first;
    if (*first != NOBODY) t->previous_cell[*first] = u;
    *first = u;
}

static void detach(Tree *t, Int u) {
    Int s = t->link[u], next = t->next_cell[u], previous = t->previous_cell[u];
    Int *first = s == ROOT ? &t->first_shared[t->n] : &t->first_cell[s];
    if (previous != NOBODY) t->next_cell[previous] = next;
    else *first = next;
    if (next != NOBODY) t->previous_cell[next] = previous;
    if (s != ROOT && *first == NOBODY) remove_shared(t, s);
}

/* Which samples are at home where, and what they would cost elsewhere */

INLINE void lower_prices(double *price, Int *cheapest, const double *cost, double home_cost, Int s, Int n) {
#if defined(__GNUC__)
#pragma omp simd
#endif
    for (Int j = 0; j < n; j++) {
        double its = cost[j] - home_cost;
        int is_less = its < price[j];
        price[j] = is_less ? its : price[j];
        cheapest[j] = is_less ? s : cheapest[j];
    }
}

/* Keep a move that costs less than `beyond`. */
static void keep(Tree *t, Int pair, Int s, double price) {
    Move *kept = t->kept + pair * t->keeps;
    Int at = t->count[pair];
    if (at < t->keeps) {
        t->count[pair]++;
        for (; at > 0 && kept[at - 1].price < price; at--) kept[at] = kept[at - 1];
    } else {
        t->beyond[pair] = fmax(price, kept[0].price);
        if (price >= kept[0].price) return;
        for (at = 0; at + 1 < t->keeps && kept[at + 1].price > price; at++) kept[at] = kept[at + 1];
    }
    kept[at] = (Move){price, s};
}

VECTORISED static void see(Tree *t, Int s) {
    Int n = t->n, row = t->home[s] * n;
    const double *cost = t->cost + s * n, *beyond = t->beyond + row;
    double home_cost = t->home_cost[s];
    lower_prices(t->price + row, t->cheapest + row, cost, home_cost, s, n);
    for (Int first = 0; t->kept && first < n; first += BLOCK) {
        Int stop = first + BLOCK < n ? first + BLOCK : n;
        if (!count_below(cost + first, home_cost, beyond + first, stop - first)) continue;
        for (Int j = first; j < stop; j++)
            if (cost[j] - home_cost < beyond[j]) keep(t, row + j, s, cost[j] - home_cost);
    }
}

INLINE void put_inside(Tree *t, Int s) {
    Int home = t->home[s];
    if (t->filled[home] == CHUNK) {
        Int chunk = t->free_chunk;
        t->free_chunk = t->chunk_before[chunk];
        t->chunk_before[chunk] = t->last_chunk[home];
        t->last_chunk[home] = chunk;
        t->filled[home] = 0;
    }
    t->place[s] = t->last_chunk[home] * CHUNK + t->filled[home]++;
    t->inside[t->place[s]] = s;
}

static void enter_home(Tree *t, Int s) {
    put_inside(t, s);
    see(t, s);
}

/* The same of all samples, while no moves of any pair are kept: in a third of the time of as many calls. */
VECTORISED static void enter_all_homes(Tree *t) {
    for (Int s = 0; s < t->k; s++) {
        Int row = t->home[s] * t->n;
        put_inside(t, s);
        lower_prices(t->price + row, t->cheapest + row, t->cost + s * t->n, t->home_cost[s], s, t->n);
    }
}

static void leave_home(Tree *t, Int s) {
    Int home = t->home[s], chunk = t->last_chunk[home], last = t->inside[chunk * CHUNK + --t->filled[home]];
    t->inside[t->place[s]] = last;
    t->place[last] = t->place[s];
    if (t->filled[home]) return;
    t->last_chunk[home] = t->chunk_before[chunk];
    t->filled[home] = CHUNK;
    t->chunk_before[chunk] = t->free_chunk;
    t->free_chunk = chunk;
}

/* Samples of one cell that lie side by side; none in front of the first chunk. */
typedef struct {
    const Int *sample;
    Int count, number;
} Chunk;

INLINE Chunk chunk_at(const Tree *t, Int number, Int count) {
    return number == NOBODY ? (Chunk){NULL, 0, NOBODY} : (Chunk){t->inside + number * CHUNK, count, number};
}

INLINE Chunk last_of(const Tree *t, Int i) { return chunk_at(t, t->last_chunk[i], t->filled[i]); }

INLINE Chunk before(const Tree *t, Chunk c) { return chunk_at(t, t->chunk_before[c.number], CHUNK); }

static void forget_prices(Tree *t, Int i) {
    for (Int pair = i * t->n; pair < (i + 1) * t->n; pair++) t->price[pair] = INFINITY, t->cheapest[pair] = NOBODY;
    t->looks[i] = 0;
}

static void rehome(Tree *t, Int s, Int home, double mass, double cost) {
    if (t->price) leave_home(t, s);
    int shared = t->first_cell[s] != NOBODY;
    if (shared) remove_shared(t, s);
    t->home[s] = home;
    t->home_mass[s] = mass;
    t->home_cost[s] = cost;
    t->outside[s] = -INFINITY; /* the cell left behind has not been priced */
    if (shared) add_shared(t, s);
    if (t->price) enter_home(t, s);
}

/* Raise the potential of all cells below u and of u itself; set the depths below u. */
static void shift(Tree *t, Int u, double rise) {
    Int top = 0;
    t->stack[top++] = u;
    while (top) {
        Int w = t->stack[--top];
        t->v[w] += rise;
        for (Int s = t->first_shared[w]; s != NOBODY; s = t->next_shared[s])
            for (Int x = t->first_cell[s]; x != NOBODY; x = t->next_cell[x]) {
                t->depth[x] = t->depth[w] + 2;
                t->stack[top++] = x;
            }
    }
}

/* Pivots */

typedef struct {
    Int number;
    int is_sample;
} Node;

static int same(Node x, Node y) { return x.number == y.number && x.is_sample == y.is_sample; }

static Int depth_of(const Tree *t, Node x) { return x.is_sample ? t->depth[t->home[x.number]] + 1 : t->depth[x.number]; }

static Node above(const Tree *t, Node x) {
    if (x.is_sample) return (Node){t->home[x.number], 0};
    Int s = t->link[x.number];
    return s == ROOT ? (Node){t->n, 0} : (Node){s, 1};
}

/* What the arc above x can lose while mass goes up it, or down. */
static double room_up(const Tree *t, Node x) {
    if (x.is_sample) return INFINITY;
    return t->link[x.number] != ROOT || t->lacks[x.number] ? t->link_mass[x.number] : INFINITY;
}

static double room_down(const Tree *t, Node x) {
    if (x.is_sample) return t->home_mass[x.number];
    return t->link[x.number] == ROOT && !t->lacks[x.number] ? t->link_mass[x.number] : INFINITY;
}

/* Send mass up the arc above x; a negative mass goes down. */
static void send_up(Tree *t, Node x, double mass) {
    double *arc = x.is_sample ? &t->home_mass[x.number] : &t->link_mass[x.number];
    int gains = x.is_sample || (t->link[x.number] == ROOT && !t->lacks[x.number]);
    *arc += gains ? mass : -mass;
}

/* Cell j hangs off sample s from now on, and what was above j, up to cell `last`, below it. */
static void turn_cells(Tree *t, Int j, Int s, double mass, double cost, Int last) {
    for (;;) {
        Int old = t->link[j];
        double its_mass = t->link_mass[j], its_cost = t->link_cost[j];
        detach(t, j);
        if (j == last) {
            attach(t, j, s, mass, cost);
            return;
        }
        Int up = t->home[old];
        double up_mass = t->home_mass[old], up_cost = t->home_cost[old];
        rehome(t, old, j, its_mass, its_cost);
        attach(t, j, s, mass, cost);
        j = up, s = old, mass = up_mass, cost = up_cost;
    }
}

/* Sample s is at home in cell j from now on, and what was above s, up to the node `last`, below it. */
static void turn_samples(Tree *t, Int s, Int j, double mass, double cost, Node last) {
    for (;;) {
        Int old = t->home[s];
        double its_mass = t->home_mass[s], its_cost = t->home_cost[s];
        rehome(t, s, j, mass, cost);
        if (last.is_sample && s == last.number) return;
        Int up = t->link[old];
        double up_mass = t->link_mass[old], up_cost = t->link_cost[old];
        detach(t, old);
        attach(t, old, s, its_mass, its_cost);
        if (!last.is_sample && old == last.number) return;
        s = up, j = old, mass = up_mass, cost = up_cost;
    }
}

/* Let sample s enter cell j, where it costs `cost` and `reduced` < 0 less than at home.

Mass goes round the cycle: from j up to the apex, down to s, and into j. The arc that limits it leaves; of several, the
last one on the way from the apex round. */
static void pivot(Tree *t, Int s, Int j, double cost, double reduced) {
    Node x = {j, 0}, y = {s, 1}, leaving = {NOBODY, 0};
    double most = INFINITY;
    int on_way_up = 0;
    while (!same(x, y)) {
        if (depth_of(t, x) >= depth_of(t, y)) {
            double room = room_up(t, x);
            if (room < most || (room == most && leaving.number != NOBODY)) most = room, leaving = x, on_way_up = 1;
            x = above(t, x);
        } else {
            double room = room_down(t, y);
            if (room < most) most = room, leaving = y, on_way_up = 0;
            y = above(t, y);
        }
    }
    for (Node z = {j, 0}; !same(z, x); z = above(t, z)) send_up(t, z, most);
    for (Node z = {s, 1}; !same(z, x); z = above(t, z)) send_up(t, z, -most);
    t->pivots++;
    t->outside[s] = -INFINITY;
    if (on_way_up) {
        turn_cells(t, j, s, most, cost, leaving.number);
        t->depth[j] = t->depth[t->home[s]] + 2;
        shift(t, j, reduced);
        return;
    }
    turn_samples(t, s, j, most, cost, leaving);
    for (Int u = t->first_cell[s]; u != NOBODY; u = t->next_cell[u]) {
        t->depth[u] = t->depth[j] + 2;
        shift(t, u, -reduced);
    }
}

/* Pricing of samples */

/* What the reduced cost of a sample at point j may be by rounding. */
static double rounding(const Tree *t, Int s, Int j, double cost) {
    Int home = t->home[s];
    return ROUNDING * (fabs(t->home_cost[s]) + fabs(t->v[home]) + fabs(cost) + fabs(t->v[j]));
}

/* Of every LANES-th point the one nearest in c - v. */
VECTORISED static void nearest_by_lane(const double *cost, const double *v, Int n, double *found, Int *point) {
    Int rows = n / LANES;
#if defined(__GNUC__)
#pragma omp simd
#endif
    for (Int lane = 0; lane < LANES; lane++) {
        double least = INFINITY;
        Int best = 0, row = 0;
        do { /* a `for` is not vectorised */
            double reduced = cost[row * LANES + lane] - v[row * LANES + lane];
            best = reduced < least ? row : best;
            least = reduced < least ? reduced : least;
        } while (++row < rows);
        found[lane] = least, point[lane] = best * LANES + lane;
    }
    for (Int j = rows * LANES; j < n; j++) {
        Int lane = j - rows * LANES;
        double reduced = cost[j] - v[j];
        if (reduced < found[lane]) found[lane] = reduced, point[lane] = j;
    }
}

/* Find the near points of a sample among all but its home. */
static void renew_near(Tree *t, Int s) {
    Int point[LANES], home = t->home[s];
    double found[LANES], at_home = t->v[home];
    const double *cost = t->cost + s * t->n;
    Near *near = t->near + s * LANES;
    t->v[home] = -INFINITY; /* infinitely far */
    nearest_by_lane(cost, t->v, t->n, found, point);
    t->v[home] = at_home;
    for (Int lane = 0; lane < LANES; lane++) near[lane] = (Near){cost[point[lane]], point[lane]};
}

VECTORISED static double least_listed(const double *cost, const Int *cols, const double *v, Int count) {
    double found = INFINITY;
#if defined(__GNUC__)
#pragma omp simd reduction(min : found)
#endif
    for (Int e = 0; e < count; e++) {
        double reduced = cost[e] - v[cols[e]];
        found = reduced < found ? reduced : found;
    }
    return found;
}

/* Where a sample costs least outside its home, in c - v, of all points or of those near it: a point and the cost; NOBODY
where its home is best. */
static Int best_outside(Tree *t, Int s, int among_all, double *its_cost) {
    Int n = t->n, home = t->home[s], best = 0;
    const double *v = t->v;
    double v_home = v[home], at_home = t->home_cost[s] - v_home, found = INFINITY;
    if (t->offsets) {
        Int at = t->offsets[s], count = t->offsets[s + 1] - at;
        t->v[home] = -INFINITY; /* infinitely far */
        found = least_listed(t->cost + at, t->cols + at, v, count);
        if (found < at_home) {
            while (t->cost[at] - v[t->cols[at]] > found) at++;
            best = t->cols[at], *its_cost = t->cost[at];
        }
        t->v[home] = v_home;
    } else if (t->near) {
        const Near *near = t->near + s * LANES;
        if (among_all) renew_near(t, s);
        for (Int lane = 0; lane < LANES; lane++) {
            double reduced = near[lane].cost - v[near[lane].point];
            int is_less = reduced < found && near[lane].point != home;
            found = is_less ? reduced : found;
            best = is_less ? lane : best;
        }
        *its_cost = near[best].cost, best = near[best].point;
    } else {
        const double *cost = t->cost + s * n;
        double before = least(cost, v, home), after = least(cost + home + 1, v + home + 1, n - home - 1);
        found = before < after ? before : after;
        if (found < at_home) {
            best = before < after ? 0 : home + 1;
            while (cost[best] - v[best] > found) best++;
            *its_cost = cost[best];
        }
    }
    if (among_all) t->outside[s] = found, t->priced[s] = t->scan;
    return found < at_home && found < at_home - rounding(t, s, best, *its_cost) ? best : NOBODY;
}

static void begin_scan(Tree *t) {
    Int n = t->n, kept = ++t->scan < SCANS ? t->scan : SCANS;
    memcpy(t->past + t->scan % SCANS * n, t->v, n * sizeof(double));
    for (Int scan = t->scan; scan > t->scan - kept; scan--) {
        const double *past = t->past + scan % SCANS * n;
        double rise = 0;
        for (Int j = 0; j < n; j++) rise = fmax(rise, t->v[j] - past[j]);
        t->rise[scan % SCANS] = rise;
    }
}

/* Whether a sample is certainly nearest to its home. */
static int is_settled(const Tree *t, Int s, double at_home) {
    return t->scan - t->priced[s] < SCANS && t->outside[s] - t->rise[t->priced[s] % SCANS] >= at_home;
}

static void sift_down(Candidate *heap, Int count, Int at) {
    Candidate moved = heap[at];
    for (Int below; (below = 2 * at + 1) < count; at = below) {
        if (below + 1 < count && heap[below + 1].reduced < heap[below].reduced) below++;
        if (heap[below].reduced >= moved.reduced) break;
        heap[at] = heap[below];
    }
    heap[at] = moved;
}

/* Price all samples: a heap of those that have a better place, and how many they are. */
static Int collect(Tree *t, int among_all) {
    Int count = 0;
    begin_scan(t);
    for (Int s = 0; s < t->k; s++) {
        double cost = 0, at_home = t->home_cost[s] - t->v[t->home[s]];
        if (is_settled(t, s, at_home)) continue;
        Int j = best_outside(t, s, among_all, &cost);
        if (j != NOBODY) t->candidates[count++] = (Candidate){cost - t->v[j] - at_home, cost, s, j};
    }
    for (Int at = count / 2; at-- > 0;) sift_down(t->candidates, count, at);
    return count;
}

/* Let candidates enter, the best first, until none is left. */
static void enter_all(Tree *t, Int count) {
    Candidate *heap = t->candidates;
    while (count) {
        Candidate *best = heap;
        Int s = best->sample;
        double at_home = t->home_cost[s] - t->v[t->home[s]], reduced = best->cost - t->v[best->point] - at_home;
        if (t->home[s] == best->point || reduced > best->reduced / 2) { /* much less than it was: is another better? */
            best->point = best_outside(t, s, !t->near, &best->cost);
            if (!t->near) t->outside[s] = -INFINITY; /* found at potentials between two scans */
            if (best->point == NOBODY) {
                heap[0] = heap[--count];
                if (count) sift_down(heap, count, 0);
                continue;
            }
            reduced = best->cost - t->v[best->point] - at_home;
        }
        double next = count > 1 ? heap[1].reduced : INFINITY;
        if (count > 2) next = fmin(next, heap[2].reduced);
        if (reduced > next) {
            best->reduced = reduced;
            sift_down(heap, count, 0);
            continue;
        }
        Int j = best->point;
        double cost = best->cost;
        heap[0] = heap[--count];
        if (count) sift_down(heap, count, 0);
        pivot(t, s, j, cost, reduced);
    }
}

/* Pivot until no sample has a better place, with samples priced one by one. */
static void optimise_by_samples(Tree *t) {
    Int among_all = 1, found = 0;
    for (Int count; (count = collect(t, among_all)) || !among_all;) {
        enter_all(t, count);
        if (among_all) found = count;
        among_all = !t->near || count <= found / FEWER;
    }
}

/* Pricing of pairs of cells */

VECTORISED static double largest_gain(const double *v, const double *price, Int n) {
    double found = -INFINITY;
#if defined(__GNUC__)
#pragma omp simd reduction(max : found)
#endif
    for (Int j = 0; j < n; j++) {
        double gain = v[j] - price[j];
        found = gain > found ? gain : found;
    }
    return found;
}

VECTORISED static int lower_potential(double *v, const double *price, double base, Int n) {
    int falls = 0;
#if defined(__GNUC__)
#pragma omp simd reduction(| : falls)
#endif
    for (Int j = 0; j < n; j++) {
        double its = base + price[j];
        falls |= its < v[j];
        v[j] = its < v[j] ? its : v[j];
    }
    return falls;
}

/* What a sample of cell i may gain elsewhere, at most. */
static double bound_gain(const Tree *t, Int i) { return largest_gain(t->v, t->price + i * t->n, t->n) - t->v[i]; }

/* Find the cheapest sample to go from i to j, or to all cells. */
static void look_up(Tree *t, Int i, Int j) {
    Int n = t->n, pair = i * n + j;
    if (t->looks[i] == LOOKS) {
        forget_prices(t, i);
        for (Chunk c = last_of(t, i); c.count; c = before(t, c))
            for (Int at = 0; at < c.count; at++) see(t, c.sample[at]);
        return;
    }
    t->looks[i]++;
    t->price[pair] = INFINITY;
    t->cheapest[pair] = NOBODY;
    for (Chunk c = last_of(t, i); c.count; c = before(t, c)) {
        for (Int at = 0; at < c.count; at++) {
            Int s = c.sample[at];
            double its = t->cost[s * n + j] - t->home_cost[s];
            if (its < t->price[pair]) t->price[pair] = its, t->cheapest[pair] = s;
        }
    }
}

/* The same where several are kept: the next that is still there. Where none is, all samples of cell i are looked at. */
static void next_kept(Tree *t, Int i, Int j) {
    Int n = t->n, pair = i * n + j, *count = t->count + pair;
    const Move *kept = t->kept + pair * t->keeps;
    while (*count && t->home[kept[*count - 1].sample] != i) --*count;
    if (!*count) {
        t->beyond[pair] = INFINITY;
        for (Chunk c = last_of(t, i); c.count; c = before(t, c)) {
            for (Int at = 0; at < c.count; at++) {
                Int s = c.sample[at];
                double its = t->cost[s * n + j] - t->home_cost[s];
                if (its < t->beyond[pair]) keep(t, pair, s, its);
            }
        }
    }
    t->price[pair] = *count ? kept[*count - 1].price : INFINITY;
    t->cheapest[pair] = *count ? kept[*count - 1].sample : NOBODY;
}

/* The cell where a sample of cell i gains most, which is the cheapest of that pair; NOBODY where none gains. */
static Int best_move(Tree *t, Int i) {
    Int n = t->n, *cheapest = t->cheapest + i * n;
    double *price = t->price + i * n;
    const double *v = t->v;
    for (;;) {
        double most = largest_gain(v, price, n);
        t->gain[i] = most - v[i];
        if (!(t->gain[i] > 0)) return NOBODY;
        Int j = 0;
        while (v[j] - price[j] < most) j++;
        Int s = cheapest[j];
        if (s == NOBODY || t->home[s] != i) {
            if (t->kept) next_kept(t, i, j);
            else look_up(t, i, j);
            continue;
        }
        double error = rounding(t, s, j, t->cost[s * n + j]);
        if (t->cost[s * n + j] - v[j] < t->home_cost[s] - v[i] - error) return j;
        price[j] = v[j] - v[i] + error; /* nothing is to be gained but rounding */
    }
}

/* Pivot until no sample has a better place, with pairs of cells priced. */
static void optimise_by_pairs(Tree *t) {
    Int n = t->n;
    double *gain = t->gain;
    for (;;) {
        int is_best = 1;
        for (Int i = 0; i < n; i++) {
            gain[i] = bound_gain(t, i);
            is_best &= !(gain[i] > 0);
        }
        if (is_best) return;
        for (Int count = 0; count <= n / SWEEP;) {
            Int i = 0;
            for (Int u = 1; u < n; u++)
                if (gain[u] > gain[i]) i = u;
            double before = gain[i];
            if (!(before > 0)) break;
            Int j = best_move(t, i);
            if (j == NOBODY || gain[i] < before / 2) continue; /* much less than it was: is another better? */
            Int s = t->cheapest[i * n + j];
            double cost = t->cost[s * n + j];
            pivot(t, s, j, cost, cost - t->v[j] - (t->home_cost[s] - t->v[i]));
            count++;
        }
    }
}

/* Lower potentials until no sample has a better place than its cell: shortest paths along the prices of pairs. If no
potential achieves that, each round lowers some more. */
static void fit_potential(Tree *t) {
    int falls = 1;
    for (Int round = 0; falls && round < FITS; round++) {
        falls = 0;
        for (Int i = 0; i < t->n; i++) falls |= lower_potential(t->v, t->price + i * t->n, t->v[i], t->n);
    }
}

/* The part of the samples that have a better place than their cell, about. */
static double part_away(const Tree *t) {
    Int away = 0, n = t->n;
    for (Int s = 0; s < t->k; s += LOOKED_AT) {
        Int home = t->home[s];
        double at_home = t->home_cost[s] - t->v[home];
        away += least(t->cost + s * n, t->v, n) < at_home - rounding(t, s, home, t->home_cost[s]);
    }
    return (double)away * LOOKED_AT / t->k;
}

/* Mass on artificial arcs */
static double left_over(const Tree *t) {
    double left = 0;
    for (Int u = t->first_shared[t->n]; u != NOBODY; u = t->next_cell[u]) left += t->link_mass[u];
    return left;
}

/* Potentials from the tree, free of the cost of artificial arcs and of the rounding of all shifts. */
static void settle_potential(Tree *t) {
    Int top = 0;
    for (Int u = t->first_shared[t->n]; u != NOBODY; u = t->next_cell[u]) {
        t->v[u] = t->at_root[u];
        t->stack[top++] = u;
    }
    while (top) {
        Int w = t->stack[--top];
        for (Int s = t->first_shared[w]; s != NOBODY; s = t->next_shared[s])
            for (Int u = t->first_cell[s]; u != NOBODY; u = t->next_cell[u]) {
                t->v[u] = t->v[w] + (t->link_cost[u] - t->home_cost[s]);
                t->stack[top++] = u;
            }
    }
}

/* The largest price that is finite, or twice the largest potential if that is more; `most` (n) is written to. */
VECTORISED static double largest_price(const Tree *t, double *most) {
    Int n = t->n, rows = t->offsets ? 0 : t->k;
    const double *cost = t->cost, *home_cost = t->home_cost;
    double largest = 0;
    for (Int s = 0; s < t->k - rows; s++)
        for (Int e = t->offsets[s]; e < t->offsets[s + 1]; e++)
            if (cost[e] < INFINITY) largest = fmax(largest, cost[e] - home_cost[s]);
    for (Int u = 0; u < n; u++) most[u] = 2 * fabs(t->v[u]);
    for (Int s = 0; s < rows; s++, cost += n) {
        double at_home = home_cost[s];
#if defined(__GNUC__)
#pragma omp simd
#endif
        for (Int j = 0; j < n; j++) {
            double its = cost[j] < INFINITY ? cost[j] - at_home : 0;
            most[j] = its > most[j] ? its : most[j];
        }
    }
    for (Int u = 0; u < n; u++) largest = fmax(largest, most[u]);
    return largest > 0 ? largest : 1;
}

/* Whether one cell holds most of the samples. */
static int is_crowded(const Tree *t) {
    Int most = 0, votes = 0;
    for (Int s = 0; s < t->k; s++) {
        if (!votes) most = t->home[s];
        votes += t->home[s] == most ? 1 : -1;
    }
    votes = 0;
    for (Int s = 0; s < t->k; s++) votes += t->home[s] == most;
    return 2 * votes > t->k;
}

/* Memory of the tree, all of 8 bytes a number; NULL if there is not enough. */
static char *allocate(Tree *t) {
    size_t n = t->n, k = t->k, of_pairs = 0, of_kept = 0, of_near = 0;
    int is_large = n * k >= NEAR_FROM, in_pairs = k >= PAIRS_FROM * n;
    /* A cell that holds nearly all is looked through for each of its pairs: pairs took 20 times as long (measured). */
    if (is_large && in_pairs && k < KEEP_FROM * n) in_pairs = !is_crowded(t);
    if (!t->offsets && in_pairs) {
        of_pairs = 2 * n * n + 4 * n + k + (CHUNK + 1) * (k / CHUNK + n);
        if (k >= KEEP_FROM * n) t->keeps = sqrt((double)k / n), of_kept = (2 + 2 * t->keeps) * n * n;
    } else if (!t->offsets && is_large) of_near = 2 * LANES * k;
    size_t numbers = (9 * k + (8 + SCANS) * n + SCANS + 3 + of_pairs + of_kept + of_near);
    char *memory = malloc(8 * numbers), *next = memory;
    if (!memory) return NULL;
#define TAKE(field, count) t->field = (void *)next, next += 8 * (count)
    TAKE(first_cell, k), TAKE(next_shared, k), TAKE(previous_shared, k), TAKE(outside, k), TAKE(priced, k);
    TAKE(link_cost, n), TAKE(next_cell, n), TAKE(previous_cell, n), TAKE(first_shared, n + 1), TAKE(depth, n + 1);
    TAKE(stack, n), TAKE(at_root, n), TAKE(past, SCANS * n), TAKE(rise, SCANS), TAKE(candidates, 0);
    next += k * sizeof(Candidate);
    if (of_near) TAKE(near, of_near);
    if (of_kept) TAKE(count, n * n), TAKE(beyond, n * n), TAKE(kept, 2 * t->keeps * n * n);
    if (of_pairs) {
        TAKE(price, n * n), TAKE(cheapest, n * n), TAKE(gain, n), TAKE(looks, n);
        TAKE(last_chunk, n), TAKE(filled, n), TAKE(chunk_before, k / CHUNK + n), TAKE(inside, CHUNK * (k / CHUNK + n));
        TAKE(place, k);
    }
    TAKE(lacks, 0);
    return memory;
}

/* What a shared sample has at home is what its other cells leave: pivots round, and a heavy sample takes part in many. */
static void settle_masses(Tree *t, const double *mass) {
    for (Int s = 0; s < t->k; s++) {
        double shared = 0;
        for (Int u = t->first_cell[s]; u != NOBODY; u = t->next_cell[u]) shared += t->link_mass[u];
        t->home_mass[s] = fmax(0, mass[s] - shared);
    }
}

/* See `network_simplex.h`. */
EXPORT Int network_simplex(Int n, Int k, const double *cost, const Int *offsets, const Int *cols, const double *excess,
                           double tolerance, double fits, const double *mass, Int *home, double *home_mass,
                           double *home_cost, Int *link, double *link_mass, double *v) {
    Tree t = {0};
    t.n = n, t.k = k, t.cost = cost, t.offsets = offsets, t.cols = cols;
    t.home = home, t.home_mass = home_mass, t.home_cost = home_cost;
    t.v = v, t.link = link, t.link_mass = link_mass;
    char *memory = allocate(&t);
    if (!memory) return NO_MEMORY;
    for (Int u = 0; u <= n; u++) t.first_shared[u] = NOBODY;
    memcpy(home_mass, mass, k * sizeof(double));
    for (Int s = 0; s < k; s++) t.first_cell[s] = NOBODY, t.outside[s] = -INFINITY, t.priced[s] = 0;
    for (Int u = 0; t.price && u < n; u++) {
        t.last_chunk[u] = NOBODY, t.filled[u] = CHUNK;
        forget_prices(&t, u);
    }
    for (Int pair = 0; t.kept && pair < n * n; pair++) t.count[pair] = 0, t.beyond[pair] = -INFINITY;
    for (Int chunk = 0; t.price && chunk < k / CHUNK + n; chunk++) t.chunk_before[chunk] = chunk + 1;
    if (t.price) enter_all_homes(&t);
    if (t.price && fits > 0) {
        fit_potential(&t);
        if (part_away(&t) > fits) {
            free(memory);
            return LOST;
        }
    }
    double largest = largest_price(&t, t.at_root), dear = FIRST * largest;
    memcpy(t.at_root, v, n * sizeof(double));
    t.depth[n] = 0;
    for (Int u = 0; u < n; u++) {
        t.lacks[u] = excess[u] < 0;
        t.depth[u] = 2;
        v[u] += t.lacks[u] ? dear : -dear;
        attach(&t, u, ROOT, fabs(excess[u]), 0);
    }
    for (int ended = 0;;) {
        if (t.price) optimise_by_pairs(&t);
        else optimise_by_samples(&t);
        if (ended || dear > 2 * (double)n * largest) break; /* no path of n arcs costs more: what is left has none */
        double rise = (STEEPER - 1) * dear;
        ended = left_over(&t) <= tolerance;
        if (!ended) dear += rise;
        for (Int u = t.first_shared[n]; u != NOBODY; u = t.next_cell[u]) {
            if (!ended) shift(&t, u, t.lacks[u] ? rise : -rise);
            else if (t.lacks[u]) {
                /* Sums of masses differ by rounding, for whose sake no cell is to lie far above the others. */
                t.lacks[u] = 0;
                shift(&t, u, -2 * dear);
            }
        }
    }
    settle_potential(&t);
    settle_masses(&t, mass);
    free(memory);
    return t.pivots;
}

/* Python's loader and Windows' linker look for this; there is no module of Python's in here. */
EXPORT void *PyInit__network_simplex(void) { return NULL; }
