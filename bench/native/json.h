/* Just enough JSON: members of an object as spans of the text, whatever the spacing. The text is trusted
   to be JSON; nothing is read beyond its end. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *at, *end;
} Span;

static inline bool span_is(Span span, const char *text) {
    size_t length = (size_t)(span.end - span.at);
    return length == strlen(text) && !memcmp(span.at, text, length);
}

static inline const char *json_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

/* Past a string that begins here. Long strings are the rule where speed matters, hence memchr. */
static inline const char *json_string(const char *at, const char *end) {
    const char *first = at + 1, *quote = at;
    while ((quote = memchr(quote + 1, '"', (size_t)(end - quote - 1)))) {
        const char *before = quote;
        while (before > first && before[-1] == '\\') before--;
        if ((quote - before) % 2 == 0) return quote + 1;
    }
    return end;
}

/* Past a value of any kind that begins here. */
static inline const char *json_value(const char *at, const char *end) {
    if (at < end && *at == '"') return json_string(at, end);
    if (at < end && (*at == '{' || *at == '[')) {
        int depth = 0;
        while (at < end) {
            if (*at == '"') {
                at = json_string(at, end);
                continue;
            }
            if (*at == '{' || *at == '[') depth++;
            if (*at == '}' || *at == ']') depth--;
            at++;
            if (!depth) break;
        }
        return at;
    }
    while (at < end && !strchr(",]} \t\r\n", *at)) at++;
    return at;
}

/* The next member of an object. `*at` is past `{` or past the member before. */
static inline bool json_member(const char **at, const char *end, Span *key, Span *value) {
    const char *here = json_space(*at, end);
    if (here < end && *here == ',') here = json_space(here + 1, end);
    if (here >= end || *here != '"') return false;
    const char *after = json_string(here, end);
    *key = (Span){here + 1, after - 1};
    here = json_space(after, end);
    if (here >= end || *here != ':') return false;
    here = json_space(here + 1, end);
    after = json_value(here, end);
    *value = (Span){here, after};
    *at = after;
    return true;
}

/* Past the `{` of an object, or NULL if this is none. */
static inline const char *json_object(Span text) {
    const char *at = json_space(text.at, text.end);
    return at < text.end && *at == '{' ? at + 1 : NULL;
}

/* A member's value by name; `.at` is NULL if it is not there. */
__attribute__((unused)) static Span json_get(Span object, const char *name) {
    Span key, value;
    const char *at = object.at ? json_object(object) : NULL;
    while (at && json_member(&at, object.end, &key, &value))
        if (span_is(key, name)) return value;
    return (Span){NULL, NULL};
}

__attribute__((unused)) static long json_integer(Span value, long otherwise) {
    return value.at ? strtol(value.at, NULL, 10) : otherwise;
}

#endif
