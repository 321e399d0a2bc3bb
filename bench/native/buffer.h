/* A byte buffer that grows, and the end of the program for want of memory. */
#ifndef BUFFER_H
#define BUFFER_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *data;
    size_t length, room;
} Buffer;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static inline void buffer_reserve(Buffer *buffer, size_t more) {
    if (buffer->room - buffer->length >= more) return;
    size_t room = buffer->room ? buffer->room : 65536;
    while (room - buffer->length < more) room *= 2;
    buffer->data = realloc(buffer->data, room);
    if (!buffer->data) fail("memory");
    buffer->room = room;
}

static inline void buffer_add(Buffer *buffer, const char *data, size_t length) {
    buffer_reserve(buffer, length);
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
}

__attribute__((format(printf, 2, 3), unused)) static void buffer_print(Buffer *buffer, const char *format, ...) {
    for (size_t guess = 512;;) {
        buffer_reserve(buffer, guess);
        va_list words;
        va_start(words, format);
        int length = vsnprintf(buffer->data + buffer->length, buffer->room - buffer->length, format, words);
        va_end(words);
        guess = (size_t)length + 1;
        if (guess > buffer->room - buffer->length) continue;
        buffer->length += (size_t)length;
        return;
    }
}

/* Forget the first bytes; what is left moves to the front. */
__attribute__((unused)) static void buffer_drop(Buffer *buffer, size_t length) {
    memmove(buffer->data, buffer->data + length, buffer->length - length);
    buffer->length -= length;
}

#endif
