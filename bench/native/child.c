#define _GNU_SOURCE
/* An MCP server on stdin and stdout that answers in microseconds, so that what is measured is the proxy.

   tools: echo {text}   the same text            events {count}  that many progress notifications first
          big {bytes}   that much text           sleep {ms}      answers later; others are answered meanwhile
          pid           this process's number    die {code}      ends at once, without an answer

   It speaks the revisions with a handshake; `child --modern` speaks 2026-07-28 and nothing else. */
#include <poll.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "json.h"

#define READ_SIZE (1 << 18)

typedef struct {
    long due_ms;
    char *id;
} Sleeper;

static bool modern;
static Buffer input, output;
static Sleeper *sleepers;
static size_t sleeping;

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void flush(void) {
    size_t done = 0;
    while (done < output.length) {
        ssize_t wrote = write(STDOUT_FILENO, output.data + done, output.length - done);
        if (wrote <= 0) exit(0); /* nobody reads any more */
        done += (size_t)wrote;
    }
    output.length = 0;
}

static void say(const char *text) { buffer_add(&output, text, strlen(text)); }

static void say_span(Span span) { buffer_add(&output, span.at, (size_t)(span.end - span.at)); }

static void begin_answer(Span id) {
    say("{\"jsonrpc\":\"2.0\",\"id\":");
    say_span(id);
}

static void begin_result(Span id) {
    begin_answer(id);
    say(modern ? ",\"result\":{\"resultType\":\"complete\"," : ",\"result\":{");
}

static void begin_text(Span id) {
    begin_result(id);
    say("\"content\":[{\"type\":\"text\",\"text\":\"");
}

static void end_text(void) { say("\"}]}}\n"); }

static void answer(Span id, const char *result) {
    begin_answer(id);
    say(result);
    say("}\n");
}

static void initialize(Span id, Span params) {
    Span revision = json_get(params, "protocolVersion");
    begin_answer(id);
    say(",\"result\":{\"protocolVersion\":");
    if (revision.at) say_span(revision);
    else say("\"2025-06-18\"");
    say(",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"bench-child\",\"version\":\"1\"}}}\n");
}

static void discover(Span id) {
    begin_result(id);
    say("\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}},\"ttlMs\":0,\"cacheScope\":\"private\","
        "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"bench-child\",\"version\":\"1\"}}}}\n");
}

static void list_tools(Span id) {
    static const char *names[] = {"echo", "big", "events", "sleep", "pid", "die"};
    begin_result(id);
    if (modern) say("\"ttlMs\":0,\"cacheScope\":\"private\",");
    say("\"tools\":[");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        buffer_print(&output, "%s{\"name\":\"%s\",\"inputSchema\":{\"type\":\"object\"}}", i ? "," : "", names[i]);
    say("]}}\n");
}

static void big(Span id, long bytes) {
    begin_text(id);
    buffer_reserve(&output, (size_t)bytes);
    memset(output.data + output.length, 'x', (size_t)bytes);
    output.length += (size_t)bytes;
    end_text();
}

static void events(Span id, Span token, long count) {
    for (long i = 1; token.at && i <= count; i++) {
        say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":");
        say_span(token);
        buffer_print(&output, ",\"progress\":%ld,\"total\":%ld}}\n", i, count);
        if (output.length >= 65536) flush();
    }
    begin_text(id);
    say("done");
    end_text();
}

static void sleep_later(Span id, long ms) {
    sleepers = realloc(sleepers, (sleeping + 1) * sizeof *sleepers);
    if (!sleepers) fail("memory");
    sleepers[sleeping++] = (Sleeper){now_ms() + ms, strndup(id.at, (size_t)(id.end - id.at))};
}

/* Answer those who have slept enough; how long until the next, or -1. */
static int wake(void) {
    long next = -1, now = now_ms();
    for (size_t i = 0; i < sleeping;) {
        long left = sleepers[i].due_ms - now;
        if (left > 0) {
            if (next < 0 || left < next) next = left;
            i++;
            continue;
        }
        begin_text((Span){sleepers[i].id, sleepers[i].id + strlen(sleepers[i].id)});
        say("slept");
        end_text();
        free(sleepers[i].id);
        sleepers[i] = sleepers[--sleeping];
    }
    return (int)next;
}

static void call_tool(Span id, Span params) {
    Span name = json_get(params, "name"), arguments = json_get(params, "arguments");
    if (!name.at) name = (Span){"", ""};
    if (span_is(name, "\"echo\"")) {
        Span text = json_get(arguments, "text");
        begin_text(id);
        if (text.at && *text.at == '"') say_span((Span){text.at + 1, text.end - 1});
        end_text();
    } else if (span_is(name, "\"big\"")) {
        big(id, json_integer(json_get(arguments, "bytes"), 1024));
    } else if (span_is(name, "\"events\"")) {
        Span token = json_get(json_get(params, "_meta"), "progressToken");
        events(id, token, json_integer(json_get(arguments, "count"), 10));
    } else if (span_is(name, "\"sleep\"")) {
        sleep_later(id, json_integer(json_get(arguments, "ms"), 1000));
    } else if (span_is(name, "\"pid\"")) {
        begin_text(id);
        buffer_print(&output, "%d", (int)getpid());
        end_text();
    } else if (span_is(name, "\"die\"")) {
        _exit((int)json_integer(json_get(arguments, "code"), 1));
    } else {
        answer(id, ",\"error\":{\"code\":-32602,\"message\":\"no such tool\"}");
    }
}

static const char UNSUPPORTED[] =
    ",\"error\":{\"code\":-32022,\"message\":\"Unsupported protocol version\",\"data\":{\"supported\":[\"2026-07-28\"]}}";

static void take(Span line) {
    Span id = {NULL, NULL}, method = {NULL, NULL}, params = {NULL, NULL}, key, value;
    const char *at = json_object(line);
    while (at && json_member(&at, line.end, &key, &value)) {
        if (span_is(key, "id")) id = value;
        else if (span_is(key, "method")) method = value;
        else if (span_is(key, "params")) params = value;
    }
    if (!id.at || !method.at) return; /* a notification, an answer, or nothing of ours */
    if (span_is(method, "\"tools/call\"")) call_tool(id, params);
    else if (span_is(method, "\"tools/list\"")) list_tools(id);
    else if (modern && span_is(method, "\"server/discover\"")) discover(id);
    else if (modern && span_is(method, "\"initialize\"")) answer(id, UNSUPPORTED);
    else if (!modern && span_is(method, "\"initialize\"")) initialize(id, params);
    else if (!modern && span_is(method, "\"ping\"")) answer(id, ",\"result\":{}");
    else answer(id, ",\"error\":{\"code\":-32601,\"message\":\"no such method\"}");
}

/* Take every whole line; `seen` bytes are known to hold no end of a line. */
static void take_lines(size_t seen) {
    size_t begin = 0;
    char *end;
    while ((end = memchr(input.data + seen, '\n', input.length - seen))) {
        take((Span){input.data + begin, end});
        seen = begin = (size_t)(end - input.data) + 1;
    }
    if (begin) buffer_drop(&input, begin);
}

int main(int argc, char **argv) {
    modern = argc > 1 && !strcmp(argv[1], "--modern");
    struct pollfd stdin_ready = {STDIN_FILENO, POLLIN, 0};
    for (;;) {
        if (sleeping) {
            int wait_ms = wake();
            flush();
            if (sleeping && poll(&stdin_ready, 1, wait_ms) == 0) continue;
        }
        buffer_reserve(&input, READ_SIZE);
        ssize_t got = read(STDIN_FILENO, input.data + input.length, input.room - input.length);
        if (got <= 0) return 0;
        size_t seen = input.length;
        input.length += (size_t)got;
        take_lines(seen);
        flush();
    }
}
