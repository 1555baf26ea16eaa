/* A sparse matrix times a vector, rows compressed. */
#include <stdint.h>

void kernel(const int64_t *restrict starts, int64_t bounds, const int64_t *restrict columns, int64_t entries,
            const double *restrict values, int64_t same, const double *restrict x, int64_t n, double *restrict out)
{
    for (int64_t i = 0; i + 1 < bounds; i++) {
        double total = 0;
        for (int64_t k = starts[i]; k < starts[i + 1]; k++)
            total += values[k] * x[columns[k]];
        out[i] = total;
    }
}
