/* CRC-16-CCITT, bit by bit. */
#include <stdint.h>

void kernel(const uint8_t *restrict data, int64_t n, int64_t *restrict result)
{
    uint32_t crc = 0xFFFF;
    for (int64_t i = 0; i < n; i++) {
        uint32_t byte = data[i];
        for (int bit = 0; bit < 8; bit++) {
            if ((crc & 1) ^ (byte & 1))
                crc = (crc >> 1) ^ 0x8408;
            else
                crc >>= 1;
            byte >>= 1;
        }
    }
    crc = ~crc & 0xFFFF;
    *result = ((crc << 8) | ((crc >> 8) & 0xFF)) & 0xFFFF;
}
