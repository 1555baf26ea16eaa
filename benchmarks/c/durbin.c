/* A symmetric Toeplitz system by Durbin's recursion. */
#include <stdint.h>
#include <stdlib.h>

void kernel(const double *restrict r, int64_t n, double *restrict y)
{
    double *old = malloc((size_t)n * sizeof *old);
    double alpha = -r[0], beta = 1;
    y[0] = -r[0];
    for (int64_t k = 1; k < n; k++) {
        double sum = 0;
        beta *= 1 - alpha * alpha;
        for (int64_t i = 0; i < k; i++)
            sum += r[k - 1 - i] * y[i];
        alpha = -(r[k] + sum) / beta;
        for (int64_t i = 0; i < k; i++)
            old[i] = y[i];
        for (int64_t i = 0; i < k; i++)
            y[i] += alpha * old[k - 1 - i];
        y[k] = alpha;
    }
    free(old);
}
