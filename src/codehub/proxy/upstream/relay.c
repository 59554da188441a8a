/* Relays bytes between pairs of sockets (open WebSockets) in a thread of its own.
 *
 * It handles the simple case only: bytes read from one socket of a pair are written to the other at once. When
 * anything else happens (an end closes or breaks, a send buffer is full) the pair is set aside, together with the
 * bytes read and not yet written, and Python is notified; Python handles it with the same code that runs without
 * this library. So nothing here waits, retries, times out or decides.
 *
 * Called by relay.py through ctypes; no function here uses Python. `relay_join`, `relay_part` and `relay_aside`
 * may be called from any thread, and wait for one batch at most (`hold`).
 *
 * Invariants:
 * - It works on descriptors of its own (dup), closed by `relay_part` alone. A caller that does not part a pair
 *   leaks a connection, but bytes can never be written to a descriptor number that was reused for another one.
 * - Bytes of one direction stay in order: more are read only after all before them were written.
 * - A pair's memory outlives every event that may still point to it: parted pairs are freed by the thread, after
 *   a batch, and no batch that begins later can point to them (`free_parted`).
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS = 32,             /* per batch: few, so that callers do not wait long for the lock */
    PIECE = 64 * 1024,       /* most bytes read at once from one socket */
    LEAST = 16 * 1024,       /* with less room in the arena, send its pieces before reading */
    ARENA = 256 * 1024,
    LINGER = 20 * 1000,      /* nanoseconds, see `next_batch` */
    SMALL = 256,             /* bytes of payload: more in one frame is input */
};

static const int64_t SECOND = INT64_C(1000000000);
static const int64_t SETTLE = INT64_C(10000000000); /* after opening: a page that reconnects says who it is */

enum state { CARRIED, ASIDE, PARTED };

struct pair;

struct end {
    struct pair *pair;
    int side;
};

/* Where one direction of a WebSocket is in its frames (RFC 6455, 5.2). A proxy that ends says so to the reader, between
 * two messages only. relay.py has the same fields in the same order. */
struct frames {
    uint64_t left;           /* bytes of the current frame's payload still to come */
    uint8_t head[14];
    uint8_t head_size;       /* bytes of an unfinished head */
    uint8_t lost;            /* not WebSocket framing: nobody knows where frames begin */
    uint8_t fragmented;      /* more frames belong to the message */
    uint8_t closed;          /* a close frame has begun, the last one of its sender */
};

/* What a client sends through one WebSocket is counted here: is it input of a person? Owned by Python (relay.py has
 * the same fields in the same order), which reads `input_at` at any time and outlives the pair.
 *
 * Input is what a person causes and an untouched page does not. Pages keep their connections alive with small
 * messages: one at a time, seconds apart (VS Code: 13 bytes every 5 s). People cause larger ones, or several within
 * a second (keys). Pings, pongs and closes are never input, nor is what a page sends right after it connected. */
struct meter {
    int64_t input_at;        /* monotonic nanoseconds; 0: none yet */
    int64_t opened_at;
    int64_t recent[2];       /* when the last data frame came, and the one before */
    struct frames sent[2];   /* by the client and by the workspace */
};

struct pair {
    struct end ends[2];
    int fd[2];
    struct meter *meter;     /* fd[0] is the client; NULL: not counted */
    enum state state;
    char *left[2];           /* for fd[i]: read from the other end, not yet written */
    size_t left_size[2];
    int broken;              /* bit i: reading from fd[i] failed; the kernel reports that once */
    struct pair *next;       /* in `aside` or `parted` */
};

struct piece {
    struct pair *pair;
    int to;
    char *data;
    size_t size;
};

struct relay {
    int epoll;
    int wake;                /* eventfd: the thread has pairs to free, or has to stop */
    int news;                /* eventfd: pairs were set aside */
    int stopping;
    int thick;               /* events follow so closely that sleeping costs more than polling */
    pthread_t thread;
    pthread_mutex_t turn, lock;
    struct pair *aside, *parted;
    char arena[ARENA];
};

/* Result of `relay_part`. The caller frees data with `relay_free`. */
struct left {
    char *data[2];
    size_t size[2];
    int broken;
};

/* Takes the lock fairly. The thread takes it again right after releasing it, so with a plain mutex other callers
 * would starve while there is traffic. A waiter holds `turn` meanwhile, and the thread queues behind it. */
static void hold(struct relay *relay) {
    pthread_mutex_lock(&relay->turn);
    pthread_mutex_lock(&relay->lock);
    pthread_mutex_unlock(&relay->turn);
}

static void release(struct relay *relay) {
    pthread_mutex_unlock(&relay->lock);
}

static void signal_eventfd(int eventfd) {
    uint64_t one = 1;
    /* Fails only if the counter is at its maximum: then it is readable already. */
    (void)!write(eventfd, &one, sizeof one);
}

static void clear_eventfd(int eventfd) {
    uint64_t count;
    (void)!read(eventfd, &count, sizeof count);
}

static void unwatch(struct relay *relay, struct pair *pair) {
    epoll_ctl(relay->epoll, EPOLL_CTL_DEL, pair->fd[0], NULL);
    epoll_ctl(relay->epoll, EPOLL_CTL_DEL, pair->fd[1], NULL);
}

static void set_aside(struct relay *relay, struct pair *pair) {
    if (pair->state != CARRIED)
        return;
    unwatch(relay, pair);
    pair->state = ASIDE;
    pair->next = relay->aside;
    relay->aside = pair;
}

/* Pieces of pairs that were set aside earlier in this batch are sent too: they were read before that. */
static void send_pieces(struct relay *relay, struct piece *pieces, int count) {
    for (int i = 0; i < count; i++) {
        struct piece *piece = &pieces[i];
        struct pair *pair = piece->pair;
        ssize_t sent = send(pair->fd[piece->to], piece->data, piece->size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent == (ssize_t)piece->size)
            continue;
        if (sent < 0)
            sent = 0; /* full, or broken: then Python's write fails as well */
        size_t rest = piece->size - (size_t)sent;
        char *copy = malloc(rest);
        if (copy == NULL) {
            pair->broken = 3; /* bytes are lost: both connections must end */
        } else {
            memcpy(copy, piece->data + sent, rest);
            pair->left[piece->to] = copy;
            pair->left_size[piece->to] = rest;
        }
        set_aside(relay, pair);
    }
}

static int64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * SECOND + at.tv_nsec;
}

static void count_frame(struct meter *meter, uint64_t payload, int64_t at) {
    int is_burst = meter->recent[1] != 0 && at - meter->recent[1] < SECOND;
    meter->recent[1] = meter->recent[0];
    meter->recent[0] = at;
    if (at - meter->opened_at >= SETTLE && (payload > SMALL || is_burst))
        meter->input_at = at;
}

/* Size of a frame's head (RFC 6455, 5.2), as far as its first two bytes tell. */
static int size_of_head(const uint8_t *head) {
    int length = head[1] & 0x7f;
    return 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + (head[1] & 0x80 ? 4 : 0);
}

static void begin_frame(struct frames *frames) {
    const uint8_t *head = frames->head;
    int opcode = head[0] & 0x0f, length = head[1] & 0x7f;
    uint64_t payload = 0;
    if (length < 126)
        payload = (uint64_t)length;
    else
        for (int i = 2; i < (length == 126 ? 4 : 10); i++)
            payload = payload << 8 | head[i];
    frames->head_size = 0;
    frames->left = payload;
    if ((opcode > 2 && opcode < 8) || opcode > 10 || payload >> 63)
        frames->lost = 1;
    if (opcode == 8)
        frames->closed = 1;
    if (opcode <= 8) /* pings and pongs may come between the frames of a message */
        frames->fragmented = opcode < 8 && !(head[0] & 0x80);
}

/* Goes on to the end of the next head in `data`, whose first byte and payload are in `frames` then. 0: there is none.
 * Reads heads only: costs by frames, not by bytes. */
static int find_head(struct frames *frames, const uint8_t **data, size_t *size) {
    while (*size > 0 && !frames->lost) {
        if (frames->left > 0) {
            size_t step = frames->left < *size ? (size_t)frames->left : *size;
            frames->left -= step;
            *data += step;
            *size -= step;
            continue;
        }
        frames->head[frames->head_size++] = *(*data)++;
        (*size)--;
        if (frames->head_size >= 2 && frames->head_size == size_of_head(frames->head)) {
            begin_frame(frames);
            return !frames->lost;
        }
    }
    return 0;
}

/* Counts the frames in a piece of what the client sends. */
static void count_frames(struct meter *meter, const uint8_t *data, size_t size, int64_t at) {
    struct frames *frames = &meter->sent[0];
    while (find_head(frames, &data, &size))
        if ((frames->head[0] & 0x0f) < 8) /* not close, ping or pong */
            count_frame(meter, frames->left, at);
    if (frames->lost)
        meter->input_at = at; /* every byte counts as input, so that nobody is put to sleep */
}

/* Follows the frames in a piece of what the workspace sends. */
static void follow_frames(struct meter *meter, const uint8_t *data, size_t size) {
    while (find_head(&meter->sent[1], &data, &size))
        ;
}

static void follow(struct pair *pair, int side, const uint8_t *data, size_t size) {
    if (pair->meter == NULL)
        return;
    if (side == 0)
        count_frames(pair->meter, data, size, now());
    else
        follow_frames(pair->meter, data, size);
}

/* Reads everything first, then writes it: the pieces are adjacent in the arena, and a process woken by the first
 * write does not compete with the remaining reads. A socket occurs once in a batch, so there is at most one piece
 * for each direction of a pair. */
static void carry(struct relay *relay, struct epoll_event *events, int count) {
    struct piece pieces[EVENTS];
    int filled = 0;
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        struct end *end = events[i].data.ptr;
        if (end == NULL) {
            clear_eventfd(relay->wake);
            continue;
        }
        struct pair *pair = end->pair;
        if (pair->state != CARRIED)
            continue;
        if (events[i].events & ~(uint32_t)EPOLLIN) { /* end or error: Python reads the rest and finds out which */
            set_aside(relay, pair);
            continue;
        }
        if (ARENA - used < LEAST) {
            send_pieces(relay, pieces, filled);
            filled = 0;
            used = 0;
            if (pair->state != CARRIED)
                continue;
        }
        size_t room = ARENA - used < PIECE ? ARENA - used : PIECE;
        ssize_t got = recv(pair->fd[end->side], relay->arena + used, room, MSG_DONTWAIT);
        if (got > 0) {
            follow(pair, end->side, (uint8_t *)relay->arena + used, (size_t)got);
            pieces[filled++] = (struct piece){pair, !end->side, relay->arena + used, (size_t)got};
            used += (size_t)got;
        } else if (got == 0) {
            set_aside(relay, pair);
        } else if (errno != EAGAIN && errno != EINTR) {
            pair->broken |= 1 << end->side;
            set_aside(relay, pair);
        }
    }
    send_pieces(relay, pieces, filled);
    if (relay->aside != NULL)
        signal_eventfd(relay->news);
}

static void end(struct relay *relay, struct pair *pair) {
    if (pair->state == CARRIED)
        unwatch(relay, pair);
    close(pair->fd[0]);
    close(pair->fd[1]);
    pair->state = PARTED;
    pair->next = relay->parted;
    relay->parted = pair;
}

static void free_parted(struct relay *relay) {
    while (relay->parted != NULL) {
        struct pair *pair = relay->parted;
        relay->parted = pair->next;
        free(pair);
    }
}

/* Sleeping and waking up costs both sides more than a message does. So while events follow closely (`thick`), it
 * polls for LINGER before it sleeps, and yields the processor between two polls. After a sleep longer than LINGER
 * it sleeps at once again. */
static int next_batch(struct relay *relay, struct epoll_event *events) {
    int64_t began = now();
    while (relay->thick && now() - began < LINGER) {
        int count = epoll_wait(relay->epoll, events, EVENTS, 0);
        if (count != 0)
            return count;
        sched_yield();
    }
    int64_t asleep = now();
    int count = epoll_wait(relay->epoll, events, EVENTS, -1);
    relay->thick = now() - asleep < LINGER;
    return count;
}

static void *run(void *argument) {
    struct relay *relay = argument;
    struct epoll_event events[EVENTS];
    for (;;) {
        int count = next_batch(relay, events);
        if (count < 0) {
            if (errno == EINTR)
                continue;
            abort(); /* the descriptor was closed by other code: no pair would ever be relayed again */
        }
        hold(relay);
        if (relay->stopping) {
            release(relay);
            return NULL;
        }
        carry(relay, events, count);
        free_parted(relay);
        release(relay);
    }
}

static int watch(struct relay *relay, int fd, uint32_t events, void *data) {
    struct epoll_event event = {.events = events, .data.ptr = data};
    return epoll_ctl(relay->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Starts a relay and its thread. NULL: no memory, descriptors or thread. */
struct relay *relay_open(void) {
    struct relay *relay = calloc(1, sizeof *relay);
    if (relay == NULL)
        return NULL;
    relay->epoll = epoll_create1(EPOLL_CLOEXEC);
    relay->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    relay->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&relay->turn, NULL);
    pthread_mutex_init(&relay->lock, NULL);
    int failed = relay->epoll < 0 || relay->wake < 0 || relay->news < 0 || watch(relay, relay->wake, EPOLLIN, NULL);
    if (!failed) {
        sigset_t all, before; /* signals are for the main thread */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        failed = pthread_create(&relay->thread, NULL, run, relay);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (failed) {
        close(relay->epoll);
        close(relay->wake);
        close(relay->news);
        free(relay);
        return NULL;
    }
    return relay;
}

/* Returns a descriptor that is readable while `relay_aside` has pairs to return. */
int relay_news(struct relay *relay) {
    return relay->news;
}

/* Begins to relay between two sockets, the client's and the workspace's; `meter` counts what they send, until
 * `relay_part`. NULL, with nothing changed: no descriptors or memory. */
struct pair *relay_join(struct relay *relay, int one, int other, struct meter *meter) {
    struct pair *pair = calloc(1, sizeof *pair);
    if (pair == NULL)
        return NULL;
    pair->fd[0] = fcntl(one, F_DUPFD_CLOEXEC, 0);
    pair->fd[1] = fcntl(other, F_DUPFD_CLOEXEC, 0);
    pair->meter = meter;
    for (int side = 0; side < 2; side++)
        pair->ends[side] = (struct end){pair, side};
    hold(relay); /* or an event of the first could arrive before the second is watched */
    int failed = pair->fd[0] < 0 || pair->fd[1] < 0
        || watch(relay, pair->fd[0], EPOLLIN | EPOLLRDHUP, &pair->ends[0])
        || watch(relay, pair->fd[1], EPOLLIN | EPOLLRDHUP, &pair->ends[1]);
    if (failed)
        end(relay, pair);
    release(relay);
    return failed ? NULL : pair;
}

/* Returns a pair that was set aside, each once; NULL: none left. */
struct pair *relay_aside(struct relay *relay) {
    hold(relay);
    struct pair *pair = relay->aside;
    if (pair != NULL)
        relay->aside = pair->next;
    else
        clear_eventfd(relay->news);
    release(relay);
    return pair;
}

/* Ends a pair in any state and returns the bytes read and not written. Once per pair: the pointer is invalid then. */
void relay_part(struct relay *relay, struct pair *pair, struct left *left) {
    hold(relay);
    for (struct pair **at = &relay->aside; *at != NULL; at = &(*at)->next)
        if (*at == pair) {
            *at = pair->next;
            break;
        }
    for (int side = 0; side < 2; side++) {
        left->data[side] = pair->left[side];
        left->size[side] = pair->left_size[side];
    }
    left->broken = pair->broken;
    end(relay, pair);
    release(relay);
    signal_eventfd(relay->wake); /* to free it */
}

/* Counts bytes of the client that did not go through the relay: before a pair is joined, and while it is aside. */
void relay_count(struct meter *meter, const void *data, size_t size) {
    count_frames(meter, data, size, now());
}

/* The same for bytes of the workspace. */
void relay_follow(struct meter *meter, const void *data, size_t size) {
    follow_frames(meter, data, size);
}

void relay_free(void *data) {
    free(data);
}

/* Ends the thread and frees the relay. The caller has parted every pair. */
void relay_close(struct relay *relay) {
    hold(relay);
    relay->stopping = 1;
    release(relay);
    signal_eventfd(relay->wake);
    pthread_join(relay->thread, NULL);
    free_parted(relay);
    close(relay->epoll);
    close(relay->wake);
    close(relay->news);
    pthread_mutex_destroy(&relay->turn);
    pthread_mutex_destroy(&relay->lock);
    free(relay);
}
