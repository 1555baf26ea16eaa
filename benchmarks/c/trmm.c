/* A triangular matrix times a matrix, in place. */
#include <stdint.h>

void kernel(double alpha, const double *restrict a, int64_t m, int64_t columns, double *restrict b, int64_t rows,
            int64_t n)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t k = i + 1; k < m; k++)
            for (int64_t j = 0; j < n; j++)
                b[i * n + j] += a[k * columns + i] * b[k * n + j];
        for (int64_t j = 0; j < n; j++)
            b[i * n + j] *= alpha;
    }
}
