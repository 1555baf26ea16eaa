/* Soft dynamic time warping. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

void kernel(const double *restrict x, int64_t n, const double *restrict y, int64_t m, double *restrict result)
{
    int64_t wide = m + 1;
    double *cost = malloc((size_t)((n + 1) * wide) * sizeof *cost);
    for (int64_t i = 0; i < (n + 1) * wide; i++)
        cost[i] = 1e10;
    cost[0] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            double a = cost[i * wide + j], b = cost[i * wide + j + 1], c = cost[(i + 1) * wide + j];
            double low = a < b ? a : b;
            low = c < low ? c : low;
            double soft = low - log(exp(low - a) + exp(low - b) + exp(low - c));
            cost[(i + 1) * wide + j + 1] = (x[i] - y[j]) * (x[i] - y[j]) + soft;
        }
    *result = cost[n * wide + m];
    free(cost);
}
