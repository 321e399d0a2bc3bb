/* The shortest possible HTTP server that answers calls, to see how fast the load generator is by itself:
   `responder PORT` answers every POST at once with its id and an empty text. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buffer.h"

typedef struct {
    int fd;
    Buffer received;
} Client;

static long number_after(Buffer *buffer, const char *words) {
    char *at = memmem(buffer->data, buffer->length, words, strlen(words));
    return at ? strtol(at + strlen(words), NULL, 10) : 0;
}

/* Answer what is there if it is a whole request; the generator sends one at a time. */
static void answer(Client *client) {
    char *end = memmem(client->received.data, client->received.length, "\r\n\r\n", 4);
    if (!end) return;
    size_t head = (size_t)(end - client->received.data) + 4;
    if (client->received.length < head + (size_t)number_after(&client->received, "Content-Length: ")) return;
    char body[128], reply[256];
    long id = number_after(&client->received, "\"id\":");
    int length = snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\"}]}}", id);
    int size = snprintf(reply, sizeof reply,
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", length,
                        body);
    if (write(client->fd, reply, (size_t)size) != size) fail("write");
    client->received.length = 0;
}

static void take(Client *client) {
    buffer_reserve(&client->received, 65536);
    ssize_t got = read(client->fd, client->received.data + client->received.length, 65536);
    if (got <= 0) {
        close(client->fd);
        free(client->received.data);
        free(client);
        return;
    }
    client->received.length += (size_t)got;
    answer(client);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0), poller = epoll_create1(0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024)) fail("listen");
    struct epoll_event event = {EPOLLIN, {.ptr = NULL}}, ready[256];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(poller, ready, 256, -1);
        for (int i = 0; i < count; i++) {
            if (ready[i].data.ptr) {
                take(ready[i].data.ptr);
                continue;
            }
            Client *client = calloc(1, sizeof *client);
            client->fd = accept(listener, NULL, NULL);
            setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            event.data.ptr = client;
            epoll_ctl(poller, EPOLL_CTL_ADD, client->fd, &event);
        }
    }
}
