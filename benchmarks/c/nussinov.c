/* RNA folding: the largest number of pairs in every interval of a sequence. */
#include <stdint.h>
#include <string.h>

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

void kernel(int64_t n, const int32_t *restrict seq, int64_t extent, int32_t *restrict table)
{
    memset(table, 0, (size_t)(n * n) * sizeof *table);
    for (int64_t i = n - 1; i >= 0; i--)
        for (int64_t j = i + 1; j < n; j++) {
            int32_t best = larger(table[i * n + j], table[i * n + j - 1]);
            if (i + 1 < n) {
                best = larger(best, table[(i + 1) * n + j]);
                int32_t pair = i < j - 1 && seq[i] + seq[j] == 3;
                best = larger(best, table[(i + 1) * n + j - 1] + pair);
            }
            for (int64_t k = i + 1; k < j; k++)
                best = larger(best, table[i * n + k] + table[(k + 1) * n + j]);
            table[i * n + j] = best;
        }
}
