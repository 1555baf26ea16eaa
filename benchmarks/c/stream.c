/* Streams through memory: what the stores of a pass cost, with and without reading the lines that they overwrite. */

#include <stdint.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define WIDTH 8
#define STREAM(place, value) _mm512_stream_pd(place, (__m512d)(value))
#elif defined(__AVX__)
#define WIDTH 4
#define STREAM(place, value) _mm256_stream_pd(place, (__m256d)(value))
#elif defined(__SSE2__)
#define WIDTH 2
#define STREAM(place, value) _mm_stream_pd(place, (__m128d)(value))
#endif

double sum(const double *a, int64_t n) {
    double lanes[32] = {0}, total = 0;
    for (int64_t i = 0; i + 32 <= n; i += 32)
        for (int k = 0; k < 32; k++) lanes[k] += a[i + k];
    for (int k = 0; k < 32; k++) total += lanes[k];
    return total;
}

void scale(const double *restrict a, double *restrict c, int64_t n) {
    for (int64_t i = 0; i < n; i++) c[i] = 3.0 * a[i];
}

void triad(const double *restrict a, const double *restrict b, double *restrict c, int64_t n) {
    for (int64_t i = 0; i < n; i++) c[i] = a[i] + 3.0 * b[i];
}

#ifdef WIDTH
typedef double vector __attribute__((vector_size(8 * WIDTH)));
typedef double loose __attribute__((vector_size(8 * WIDTH), aligned(8)));

/* c lies at a whole vector, and n is a multiple of the vectors' length. */
void scale_past_caches(const double *a, double *c, int64_t n) {
    for (int64_t i = 0; i < n; i += WIDTH) STREAM(c + i, 3.0 * *(const loose *)(a + i));
    _mm_sfence();
}

void triad_past_caches(const double *a, const double *b, double *c, int64_t n) {
    for (int64_t i = 0; i < n; i += WIDTH) STREAM(c + i, *(const loose *)(a + i) + 3.0 * *(const loose *)(b + i));
    _mm_sfence();
}
#endif
