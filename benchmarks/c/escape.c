/* Mandelbrot's set by a while loop a point. */
#include <stdint.h>

void kernel(const double *restrict x, int64_t n, const double *restrict y, int64_t m, int64_t limit,
            int64_t *restrict out)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double a = 0, b = 0;
            int64_t k = 0;
            for (; k < limit && a * a + b * b <= 4; k++) {
                double next = a * a - b * b + x[j];
                b = 2 * a * b + y[i];
                a = next;
            }
            out[i * n + j] = k;
        }
}
