/* SPDX-License-Identifier: BSD-3-Clause */
/* A sender that tells the host's queue the size of its next message (ncc/envs/linux/order_program.py). */
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t send_message(int fd, const void *message, size_t bytes)
{
    const uint32_t size = (uint32_t)bytes;

    setsockopt(fd, 0x4E43, 1, &size, sizeof(size)); /* fails without harm if the host has no such queue */
    return write(fd, message, bytes);
}
