/* One HTTP/1.1 response, taken from the bytes as they come: Content-Length, chunked, or until the end. */
#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>
#include <strings.h>

#include "buffer.h"

typedef struct {
    int status; /* 0: the head is not here yet */
    long length; /* of the body; -1: until the end */
    bool chunked, is_events, closes;
    long chunk_left; /* of this chunk; -1: its size comes next */
    char session[256];
    Buffer body;
} Response;

static void response_clear(Response *response) {
    Buffer body = response->body;
    body.length = 0;
    *response = (Response){.length = -1, .chunk_left = -1, .body = body};
}

static size_t smaller(size_t left, size_t right) { return left < right ? left : right; }

static bool starts(const char *line, const char *name) { return !strncasecmp(line, name, strlen(name)); }

static void response_header(Response *response, char *line) {
    char *value = strchr(line, ':');
    if (!value) return;
    value += 1 + strspn(value + 1, " ");
    if (starts(line, "content-length:")) response->length = atol(value);
    else if (starts(line, "transfer-encoding:")) response->chunked = starts(value, "chunked");
    else if (starts(line, "content-type:")) response->is_events = starts(value, "text/event-stream");
    else if (starts(line, "connection:")) response->closes = starts(value, "close");
    else if (starts(line, "mcp-session-id:")) snprintf(response->session, sizeof response->session, "%s", value);
}

/* The head, once it is here whole; false until then. */
static bool response_head(Response *response, Buffer *received) {
    char *end = received->length ? memmem(received->data, received->length, "\r\n\r\n", 4) : NULL;
    if (!end) return false;
    size_t length = (size_t)(end - received->data) + 4;
    *end = 0;
    char *rest = received->data, *line = strsep(&rest, "\r");
    response->status = line && strlen(line) > 9 ? atoi(line + 9) : -1;
    while (rest && (line = strsep(&rest, "\r"))) response_header(response, line + 1);
    /* These have no body, whatever else the head forgot to say. */
    bool bodiless = response->status == 202 || response->status == 204;
    if (bodiless && response->length < 0 && !response->chunked) response->length = 0;
    buffer_drop(received, length);
    return true;
}

/* Move what is there of the chunks into the body; true after the last. */
static bool response_chunks(Response *response, Buffer *received) {
    size_t at = 0;
    bool done = false;
    while (at < received->length) {
        if (response->chunk_left < 0) {
            char *end = memmem(received->data + at, received->length - at, "\r\n", 2);
            if (!end) break;
            response->chunk_left = strtol(received->data + at, NULL, 16) + 2; /* its CRLF is part of it */
            if (response->chunk_left == 2 && received->length - (size_t)(end - received->data) < 4) {
                response->chunk_left = -1; /* the last chunk is not whole yet */
                break;
            }
            at = (size_t)(end - received->data) + 2;
            if (response->chunk_left == 2) {
                at += 2;
                done = true;
                break;
            }
        }
        size_t here = smaller(received->length - at, (size_t)response->chunk_left);
        size_t data = smaller(here, (size_t)(response->chunk_left > 2 ? response->chunk_left - 2 : 0));
        buffer_add(&response->body, received->data + at, data);
        response->chunk_left -= (long)here;
        if (!response->chunk_left) response->chunk_left = -1;
        at += here;
    }
    buffer_drop(received, at);
    return done;
}

/* Take what was received; true when the response is whole. */
static bool response_take(Response *response, Buffer *received, bool closed) {
    if (!response->status && !response_head(response, received)) return false;
    if (response->chunked) return response_chunks(response, received);
    size_t left = received->length;
    if (response->length >= 0) left = smaller(left, (size_t)response->length - response->body.length);
    buffer_add(&response->body, received->data, left);
    buffer_drop(received, left);
    return response->length < 0 ? closed : response->body.length == (size_t)response->length;
}

#endif
