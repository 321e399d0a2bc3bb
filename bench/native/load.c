#define _GNU_SOURCE
/* The load generator: calls a tool over and over, through a proxy's /mcp or on a server's bare pipe, and
   says how long that took as one line of JSON.

     load http 127.0.0.1:8000 [options]       a proxy; or several, HOST:PORT,HOST:PORT, that know each other's sessions
     load pipe [options] -- COMMAND…          the server itself, one process for each session: the floor

   It introduces itself (initialize, initialized) once for each session, and only then starts the clock. With
   -m it speaks 2026-07-28: no introduction and no session, each connection is a client of its own.
   A call counts when its answer carries its id and a result; anything else is an error.

   With several addresses, sessions begin at them in turn; -e begins all elsewhere. Each of the -c connections
   is then one to each address, and its calls go to them in turn, as a balancer without affinity spreads them.
   With as many sessions as connections each keeps its own, and with three addresses one call in three comes
   to where its session began.

   With -r calls are made at fixed moments, whatever became of those before, and how long one took counts from
   its moment on: a server that stands still is not asked less because of it. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "http.h"
#include "json.h"

#define READ_SIZE (1 << 18)
#define PATIENCE_S 30 /* with a server that says nothing */
#define REVISION "2025-06-18"
#define MODERN "2026-07-28"
#define ENVELOPE "io.modelcontextprotocol/"

static struct {
    int connections, sessions;
    double seconds;
    double rate; /* calls a second; 0: the next one when one is answered */
    long count; /* calls in one window; 0: by time */
    const char *tool, *arguments, *field;
    long text_bytes; /* echo a text of this size */
    bool modern, progress, wait, keep, stay;
} options = {.connections = 1, .sessions = 1, .seconds = 1, .tool = "echo", .arguments = "{\"text\":\"hello world\"}"};

/* Where a proxy is. */
typedef struct {
    struct sockaddr_in address;
    char host[64];
    char prefix[64]; /* of the path: /NAME where there are many servers */
} Place;

/* One way to the server: a connection with one call in flight, or a pipe with several. */
typedef struct {
    Place *place;
    int in, out;
    Buffer received, unsent;
    Response response;
    bool listening_for_room;
} Lane;

/* One call in flight, and who makes it: on HTTP a client with a lane to each place. */
typedef struct {
    Lane *lane;
    int session, turn;
    long id;
    double began;
    bool flying;
} Slot;

#define MOST_PLACES 16
static Place places[MOST_PLACES], entrance; /* for calls; where sessions begin, if that is elsewhere */
static int place_count;
static Buffer *session_ids;
static char **command;
static pid_t *children;

static Lane *lanes;
static int lane_count;
static Slot *slots;
static int slot_count;
static int poller;

static long sequence = 1; /* an id is sequence * slots + slot, so that an answer finds its slot */
static long sent, answered, errors, events;
static double *latencies;
static size_t latency_room;
static char complaint[512];
static const char closed_early[] = "connection closed";

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* The first complaint is kept: the rest are mostly its consequences. */
static void complain(Span said) {
    errors++;
    if (complaint[0]) return;
    snprintf(complaint, sizeof complaint, "%.*s", (int)smaller((size_t)(said.end - said.at), 300), said.at);
    for (char *at = complaint; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ') *at = '\'';
}

/* ---- what is sent ---- */

/* What a client says of itself with every call of 2026-07-28; clients are told apart by their number. */
static void put_envelope(Buffer *to, long client) {
    buffer_print(to,
                 "\"" ENVELOPE "protocolVersion\":\"" MODERN "\",\"" ENVELOPE "clientCapabilities\":{},"
                 "\"" ENVELOPE "clientInfo\":{\"name\":\"bench-%ld\",\"version\":\"1\"}",
                 client);
}

static void put_meta(Buffer *to, long id) {
    buffer_print(to, "\"_meta\":{");
    if (options.progress) buffer_print(to, "\"progressToken\":%ld%s", id, options.modern ? "," : "");
    if (options.modern) put_envelope(to, id % slot_count);
    buffer_print(to, "},");
}

static void put_call(Buffer *to, long id) {
    buffer_print(to, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",", id,
                 options.tool);
    if (options.progress || options.modern) put_meta(to, id);
    buffer_add(to, "\"arguments\":", 12);
    buffer_add(to, options.arguments, strlen(options.arguments));
    buffer_add(to, "}}", 2);
}

static const char INITIALIZE[] =
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"" REVISION
    "\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}";
static const char INITIALIZED[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

static void put_request(Buffer *to, Place *place, const char *method, Buffer *session, const char *body,
                        size_t length) {
    buffer_print(to,
                 "%s %s/mcp HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\n"
                 "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                 method, place->prefix, place->host, length);
    if (options.field) buffer_print(to, "%s\r\n", options.field);
    if (options.modern)
        buffer_print(to, "MCP-Protocol-Version: " MODERN "\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n", options.tool);
    else if (session) buffer_add(to, "MCP-Protocol-Version: " REVISION "\r\n", strlen(REVISION) + 24);
    if (session && session->length) {
        buffer_add(to, "Mcp-Session-Id: ", 16);
        buffer_add(to, session->data, session->length);
        buffer_add(to, "\r\n", 2);
    }
    buffer_add(to, "\r\n", 2);
    buffer_add(to, body, length);
}

/* ---- what is received ---- */

/* Is this message the answer to that call, and a good one? */
static bool is_answer(Span message, long id) {
    Span key, value, result = {NULL, NULL};
    bool ours = false;
    const char *at = json_object(message);
    while (at && json_member(&at, message.end, &key, &value)) {
        if (span_is(key, "id")) ours = json_integer(value, -1) == id;
        if (span_is(key, "result")) result = value;
    }
    if (!ours || !result.at) return false;
    Span failed = json_get(result, "isError");
    return !failed.at || !span_is(failed, "true");
}

static Span next_line(const char **at, const char *end) {
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    Span line = {*at, stop ? stop : end};
    *at = stop ? stop + 1 : end;
    return line;
}

/* Does this body hold the good answer? Events before it are counted; `last` is what came last. */
static bool body_answers(Response *response, long id, Span *last) {
    Span body = {response->body.data, response->body.data + response->body.length};
    *last = body;
    if (response->status != 200) return false;
    if (!response->is_events) return is_answer(body, id);
    bool found = false;
    for (const char *at = body.at; at < body.end;) {
        Span line = next_line(&at, body.end);
        if (line.end - line.at < 7 || memcmp(line.at, "data:", 5)) continue;
        *last = (Span){line.at + 5, line.end};
        if (is_answer(*last, id)) found = true;
        else events++;
    }
    return found;
}

static void settle(Slot *slot, double end, bool good, Span said) {
    slot->flying = false;
    answered++;
    if (!good) {
        complain(said);
        return;
    }
    size_t calls = (size_t)(answered - errors);
    if (calls > latency_room) {
        latency_room = latency_room ? latency_room * 2 : 65536;
        latencies = realloc(latencies, latency_room * sizeof *latencies);
        if (!latencies) fail("memory");
    }
    latencies[calls - 1] = end - slot->began;
}

/* ---- one request at a time, waiting: for the introduction and the good-bye ---- */

static int dial(Place *place) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) fail("socket");
    struct timeval patience = {PATIENCE_S, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&place->address, sizeof place->address)) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void ask(Place *place, const char *method, Buffer *session, const char *body, Response *response) {
    Buffer request = {0}, received = {0};
    put_request(&request, place, method, session, body, strlen(body));
    int fd = dial(place);
    if (write(fd, request.data, request.length) != (ssize_t)request.length) fail("write");
    response_clear(response);
    for (;;) {
        buffer_reserve(&received, READ_SIZE);
        ssize_t got = read(fd, received.data + received.length, received.room - received.length);
        if (got < 0) fail("read");
        received.length += (size_t)got;
        if (response_take(response, &received, got == 0)) break;
        if (got == 0) {
            fprintf(stderr, "the connection was closed instead of an answer\n");
            exit(1);
        }
    }
    close(fd);
    free(request.data);
    free(received.data);
}

static void introduce(Place *place, Buffer *session) {
    Response response = {0};
    ask(place, "POST", NULL, INITIALIZE, &response);
    Span said;
    if (!body_answers(&response, 0, &said)) {
        fprintf(stderr, "initialize: HTTP status %d %.*s\n", response.status, (int)(said.end - said.at), said.at);
        exit(1);
    }
    buffer_add(session, response.session, strlen(response.session));
    ask(place, "POST", session, INITIALIZED, &response);
    free(response.body.data);
}

/* ---- lanes ---- */

static void watch(Lane *lane, int fd, uint32_t what, int how) {
    struct epoll_event event = {what, {.ptr = lane}};
    if (epoll_ctl(poller, how, fd, &event)) fail("epoll_ctl");
}

static void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

static void open_connection(Lane *lane) {
    lane->in = lane->out = dial(lane->place);
    set_nonblocking(lane->in);
    lane->received.length = lane->unsent.length = 0;
    lane->listening_for_room = false;
    response_clear(&lane->response);
    watch(lane, lane->in, EPOLLIN, EPOLL_CTL_ADD);
}

static void introduce_on_pipe(Lane *lane) {
    if (write(lane->out, INITIALIZE, strlen(INITIALIZE)) < 0 || write(lane->out, "\n", 1) < 0) fail("write");
    do {
        buffer_reserve(&lane->received, READ_SIZE);
        ssize_t got = read(lane->in, lane->received.data + lane->received.length, READ_SIZE);
        if (got <= 0) fail("the server's introduction");
        lane->received.length += (size_t)got;
    } while (lane->received.data[lane->received.length - 1] != '\n');
    lane->received.length = 0;
    if (write(lane->out, INITIALIZED, strlen(INITIALIZED)) < 0 || write(lane->out, "\n", 1) < 0) fail("write");
}

/* The server itself on two pipes, introduced. */
static void open_child(Lane *lane, int number) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) fail("pipe");
    children[number] = fork();
    if (children[number] < 0) fail("fork");
    if (!children[number]) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execvp(command[0], command);
        fail(command[0]);
    }
    close(to[0]);
    close(from[1]);
    lane->out = to[1];
    lane->in = from[0];
    if (!options.modern) introduce_on_pipe(lane);
    set_nonblocking(lane->in);
    set_nonblocking(lane->out);
    watch(lane, lane->in, EPOLLIN, EPOLL_CTL_ADD);
}

static void flush(Lane *lane) {
    size_t done = 0;
    while (done < lane->unsent.length) {
        ssize_t wrote = write(lane->out, lane->unsent.data + done, lane->unsent.length - done);
        if (wrote < 0) break;
        done += (size_t)wrote;
    }
    if (done) buffer_drop(&lane->unsent, done);
    bool wants_room = lane->unsent.length > 0;
    if (wants_room == lane->listening_for_room) return;
    lane->listening_for_room = wants_room;
    if (lane->in == lane->out) watch(lane, lane->out, wants_room ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
    else watch(lane, lane->out, EPOLLOUT, wants_room ? EPOLL_CTL_ADD : EPOLL_CTL_DEL);
}

static void send_call(Slot *slot) {
    static Buffer body;
    if (!command) slot->lane = &lanes[(slot - slots) * place_count + slot->turn++ % place_count];
    Lane *lane = slot->lane;
    slot->id = sequence++ * slot_count + (slot - slots);
    slot->flying = true;
    sent++;
    if (command) {
        put_call(&lane->unsent, slot->id);
        buffer_add(&lane->unsent, "\n", 1);
    } else {
        body.length = 0;
        put_call(&body, slot->id);
        put_request(&lane->unsent, lane->place, "POST", &session_ids[slot->session], body.data, body.length);
        /* More sessions than connections: in turn, so that all are used. */
        slot->session = (slot->session + options.connections) % options.sessions;
    }
    slot->began = now();
}

static Slot *slot_of(Lane *lane) { return &slots[(lane - lanes) / place_count]; }

/* ---- the window ---- */

static double deadline;

static bool may_send(double at) { return options.count ? sent < options.count : at < deadline; }

static void give_up(void) {
    fprintf(stderr, "no answer to %ld calls in %d s\n", sent - answered, PATIENCE_S);
    exit(1);
}

static int ticking;
static double first_moment, heard; /* when there was an answer last */

/* One tick for each call of -r. */
static void start_ticking(void) {
    double period = 1 / options.rate;
    struct timespec each = {(time_t)period, (long)((period - (double)(time_t)period) * 1e9)};
    struct itimerspec times = {each, {0, 1}};
    ticking = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (ticking < 0 || timerfd_settime(ticking, 0, &times, NULL)) fail("timerfd");
    watch(NULL, ticking, EPOLLIN, EPOLL_CTL_ADD);
    first_moment = heard = now();
}

/* The calls whose moments have come, as far as there are connections without one. */
static void send_due(void) {
    static int turn;
    double at = now();
    for (int i = 0; i < slot_count; i++) {
        double moment = first_moment + (double)sent / options.rate;
        if (at < moment || !may_send(moment)) return;
        Slot *slot = &slots[(turn + i) % slot_count];
        if (slot->flying) continue;
        send_call(slot);
        slot->began = moment;
        flush(slot->lane);
    }
    turn = (turn + 1) % slot_count;
}

static void tick(void) {
    uint64_t ticks;
    if (read(ticking, &ticks, sizeof ticks) > 0) send_due();
    if (now() > heard + PATIENCE_S) give_up();
}

static bool is_more_to_come(void) {
    return options.rate && may_send(first_moment + (double)sent / options.rate);
}

/* A connection: at most one answer can be there. False if it is closed. */
static bool take_response(Lane *lane, bool closed) {
    Slot *slot = slot_of(lane);
    if (!response_take(&lane->response, &lane->received, closed)) {
        if (closed && slot->flying && slot->lane == lane)
            settle(slot, now(), false, (Span){closed_early, closed_early + strlen(closed_early)});
        return !closed;
    }
    double end = now();
    Response *response = &lane->response;
    Span last;
    char status[32];
    bool good = body_answers(response, slot->id, &last);
    if (response->status != 200) {
        int length = snprintf(status, sizeof status, "HTTP status %d", response->status);
        last = (Span){status, status + length};
    }
    settle(slot, end, good, last);
    closed = closed || response->closes;
    response_clear(response);
    return !closed;
}

/* A pipe: every whole line is an answer, or an event before one. `seen` bytes hold no end of a line. */
static void take_lines(Lane *lane, size_t seen) {
    double end = now();
    const char *start = lane->received.data, *stop = start + lane->received.length, *at = start, *newline;
    const char *from = start + seen;
    while ((newline = memchr(from, '\n', (size_t)(stop - from)))) {
        Span line = {at, newline};
        from = at = newline + 1;
        Span id = json_get(line, "id");
        if (!id.at) {
            events++;
            continue;
        }
        Slot *slot = &slots[json_integer(id, 0) % slot_count];
        settle(slot, end, is_answer(line, slot->id), line);
        if (may_send(end)) send_call(slot);
    }
    if (at != start) buffer_drop(&lane->received, (size_t)(at - start));
}

static void hear(Lane *lane) {
    buffer_reserve(&lane->received, READ_SIZE);
    size_t seen = lane->received.length;
    ssize_t got = read(lane->in, lane->received.data + seen, lane->received.room - seen);
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0) lane->received.length += (size_t)got;
    if (command) {
        if (got <= 0) fail("the server ended");
        take_lines(lane, seen);
        flush(lane);
    } else {
        if (!take_response(lane, got <= 0)) {
            close(lane->in);
            open_connection(lane);
        }
        Slot *slot = slot_of(lane);
        if (!options.rate && !slot->flying && may_send(now())) send_call(slot);
        flush(slot->lane);
    }
    if (!options.rate) return;
    heard = now();
    send_due();
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void report(double elapsed, double burnt) {
    size_t calls = (size_t)(answered - errors);
    qsort(latencies, calls, sizeof *latencies, by_size);
    double p50 = calls ? latencies[calls / 2] : 0, p99 = calls ? latencies[calls * 99 / 100] : 0;
    double max = calls ? latencies[calls - 1] : 0, best = calls ? latencies[0] : 0;
    printf("{\"calls\":%zu,\"errors\":%ld,\"seconds\":%.6f,\"rate\":%.1f,\"min_us\":%.2f,\"p50_us\":%.2f,"
           "\"p99_us\":%.2f,\"max_us\":%.2f,\"events\":%ld,\"cpu_share\":%.3f,\"complaint\":\"%s\"}\n",
           calls, errors, elapsed, (double)calls / elapsed, best * 1e6, p50 * 1e6, p99 * 1e6, max * 1e6, events,
           burnt / elapsed, complaint);
    fflush(stdout);
}

static void run_window(void) {
    struct epoll_event ready[256];
    sent = answered = errors = events = 0;
    complaint[0] = 0;
    /* Connections are new in each window: servers close those that idle, and windows may lie far apart. */
    for (int i = 0; !command && i < lane_count; i++) {
        if (lanes[i].in) close(lanes[i].in);
        open_connection(&lanes[i]);
    }
    double began = now(), burnt = cpu();
    deadline = began + options.seconds;
    if (options.rate) start_ticking();
    for (int i = 0; !options.rate && i < slot_count && may_send(began); i++) send_call(&slots[i]);
    for (int i = 0; i < lane_count; i++) flush(&lanes[i]);
    while (answered < sent || is_more_to_come()) {
        int count = epoll_wait(poller, ready, 256, PATIENCE_S * 1000);
        if (!count) give_up();
        for (int i = 0; i < count; i++) {
            if (!ready[i].data.ptr) tick();
            else if (ready[i].events & ~(uint32_t)EPOLLOUT) hear(ready[i].data.ptr);
            else flush(ready[i].data.ptr);
        }
    }
    report(now() - began, cpu() - burnt);
    if (options.rate) close(ticking);
    for (int i = 0; !command && !options.stay && i < lane_count; i++) {
        close(lanes[i].in);
        lanes[i].in = 0;
    }
}

/* ---- the whole ---- */

static void prepare(void) {
    poller = epoll_create1(EPOLL_CLOEXEC);
    lane_count = command ? options.sessions : options.connections * place_count;
    slot_count = command && options.sessions > options.connections ? options.sessions : options.connections;
    lanes = calloc((size_t)lane_count, sizeof *lanes);
    slots = calloc((size_t)slot_count, sizeof *slots);
    session_ids = calloc((size_t)options.sessions, sizeof *session_ids);
    children = calloc((size_t)options.sessions, sizeof *children);
    for (int i = 0; command && i < slot_count; i++) slots[i].lane = &lanes[i % lane_count];
    for (int i = 0; !command && i < slot_count; i++) {
        slots[i].session = i % options.sessions;
        slots[i].lane = &lanes[i * place_count];
        for (int j = 0; j < place_count; j++) slots[i].lane[j].place = &places[(i + j) % place_count];
    }
    for (int i = 0; i < options.sessions; i++) {
        if (command) open_child(&lanes[i], i);
        else if (!options.modern) introduce(*entrance.host ? &entrance : &places[i % place_count], &session_ids[i]);
    }
}

static void finish(void) {
    Response response = {0};
    for (int i = 0; i < options.sessions; i++) {
        if (command) {
            close(lanes[i].out);
            waitpid(children[i], NULL, 0);
        } else if (session_ids[i].length && !options.keep) {
            ask(&places[0], "DELETE", &session_ids[i], "", &response);
        }
    }
}

static void usage(void) {
    fprintf(stderr,
            "usage: load http HOST:PORT[/NAME][,…] [options] | load pipe [options] -- COMMAND…\n"
            "  -c N  connections, or calls in flight on the pipes (1)   -t NAME  tool (echo)\n"
            "  -s N  sessions (1)                                       -a JSON  its arguments\n"
            "  -d S  seconds of a window (1)                            -b N     echo a text of N bytes\n"
            "  -n N  calls of a window, instead of -d                   -p       ask for progress\n"
            "  -w    wait: one window for each line on stdin            -k       keep the sessions at the end\n"
            "  -m    speak 2026-07-28                                   -o       stay connected after a window\n"
            "  -r N  calls a second, at fixed moments                   -H FIELD a header field of each request\n"
            "  -e HOST:PORT[/NAME]  where sessions begin\n");
    exit(2);
}

static void read_place(Place *place, const char *text, size_t length) {
    char copy[128] = {0}, name[64] = {0};
    if (length >= sizeof copy) usage();
    memcpy(copy, text, length);
    char *slash = strchr(copy, '/');
    if (slash && strlen(slash) >= sizeof place->prefix) usage();
    if (slash) strcpy(place->prefix, slash);
    if (slash) *slash = 0;
    char *colon = strchr(copy, ':');
    if (!colon || strlen(copy) >= sizeof place->host) usage();
    strcpy(place->host, copy);
    memcpy(name, copy, (size_t)(colon - copy));
    place->address.sin_family = AF_INET;
    place->address.sin_port = htons((uint16_t)atoi(colon + 1));
    if (inet_pton(AF_INET, name, &place->address.sin_addr) != 1) usage();
}

static void read_options(int argc, char **argv) {
    int letter;
    while ((letter = getopt(argc, argv, "+c:s:d:n:r:t:a:b:H:e:mopwk")) != -1) switch (letter) {
            case 'c': options.connections = atoi(optarg); break;
            case 's': options.sessions = atoi(optarg); break;
            case 'd': options.seconds = atof(optarg); break;
            case 'n': options.count = atol(optarg); break;
            case 'r': options.rate = atof(optarg); break;
            case 'H': options.field = optarg; break;
            case 'e': read_place(&entrance, optarg, strlen(optarg)); break;
            case 't': options.tool = optarg; break;
            case 'a': options.arguments = optarg; break;
            case 'b': options.text_bytes = atol(optarg); break;
            case 'm': options.modern = true; break;
            case 'o': options.stay = true; break;
            case 'p': options.progress = true; break;
            case 'w': options.wait = true; break;
            case 'k': options.keep = true; break;
            default: usage();
        }
    if (options.connections < 1 || options.sessions < 1 || options.rate < 0) usage();
    if (options.text_bytes) {
        Buffer text = {0};
        buffer_print(&text, "{\"text\":\"%0*d\"}", (int)options.text_bytes, 0);
        options.arguments = text.data;
    }
}

static void read_places(const char *text) {
    while (*text) {
        size_t length = strcspn(text, ",");
        if (place_count == MOST_PLACES) usage();
        read_place(&places[place_count++], text, length);
        text += length + (text[length] == ',');
    }
    if (!place_count) usage();
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    bool http = argc > 2 && !strcmp(argv[1], "http");
    if (!http && (argc < 4 || strcmp(argv[1], "pipe"))) usage();
    read_options(argc - (http ? 2 : 1), argv + (http ? 2 : 1));
    if (http) read_places(argv[2]);
    else command = argv + 1 + optind;
    if (command && (!*command || options.rate)) usage();

    char line[64];
    prepare();
    if (options.wait) {
        puts("{\"ready\":true}");
        fflush(stdout);
        while (fgets(line, sizeof line, stdin)) run_window();
    } else {
        run_window();
    }
    finish();
    return 0;
}
