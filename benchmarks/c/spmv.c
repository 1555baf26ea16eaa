/* A sparse matrix times a vector, rows compressed. */
#include <stdint.h>

void kernel(const uint32_t *restrict starts, int64_t bounds, const uint32_t *restrict columns, int64_t entries,
            const double *restrict values, int64_t same, const double *restrict x, int64_t n, double *restrict y)
{
    for (int64_t i = 0; i + 1 < bounds; i++) {
        double sum = 0;
        for (uint32_t k = starts[i]; k < starts[i + 1]; k++)
            sum += values[k] * x[columns[k]];
        y[i] = sum;
    }
}
