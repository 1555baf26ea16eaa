/* All shortest paths: NumPy's statement copies the old row and column before it writes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void kernel(int32_t *path, int64_t n, int64_t columns)
{
    int32_t *row = malloc((size_t)n * sizeof *row);
    for (int64_t k = 0; k < n; k++) {
        memcpy(row, path + k * n, (size_t)n * sizeof *row);
        for (int64_t i = 0; i < n; i++) {
            int32_t *restrict at = path + i * n;
            int32_t first = at[k];
            for (int64_t j = 0; j < n; j++) {
                int32_t through = first + row[j];
                at[j] = through < at[j] ? through : at[j];
            }
        }
    }
    free(row);
}
