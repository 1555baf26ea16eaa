/* A lower triangular system by substitution. */
#include <stdint.h>

void kernel(const double *restrict l, int64_t n, int64_t columns, double *restrict x, int64_t nx,
            const double *restrict b, int64_t nb)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < i; j++)
            sum += l[i * n + j] * x[j];
        x[i] = (b[i] - sum) / l[i * n + i];
    }
}
