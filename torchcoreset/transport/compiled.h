/* What the compiled parts share: how a function is seen from outside, compiled for several sets of instructions, and made
a part of those that call it, in each of these sets; and sums of squares, which many of them need. */

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT
#endif
#if defined(__GLIBC__) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORISED
#endif
#ifdef __GNUC__
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

enum { SQUARE_PARTS = 8 };

/* Adds to `sum` the square of TERM for each coordinate c below d. In parts that are added up in pairs: compilers add the
lanes of a reduction one after the other, which for 16 columns took half of the time (gcc 12, measured). */
#define ADD_SQUARES(TYPE, TERM)                                                                                        \
    do {                                                                                                               \
        int64_t done = 0;                                                                                              \
        if (d >= SQUARE_PARTS) {                                                                                       \
            TYPE part[SQUARE_PARTS] = {0};                                                                             \
            for (; done + SQUARE_PARTS <= d; done += SQUARE_PARTS)                                                     \
                _Pragma("omp simd")                                                                                    \
                for (int l = 0; l < SQUARE_PARTS; l++) {                                                               \
                    int64_t c = done + l;                                                                              \
                    part[l] += (TERM) * (TERM);                                                                        \
                }                                                                                                      \
            sum += ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));          \
        }                                                                                                              \
        for (int64_t c = done; c < d; c++)                                                                             \
            sum += (TERM) * (TERM);                                                                                    \
    } while (0)
