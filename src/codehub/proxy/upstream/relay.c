/* Carries bytes between pairs of sockets in a thread of its own: the fast lane of WebSockets.
 *
 * It does the easy thing only: what one socket of a pair has, the other takes at once. As soon as anything
 * else happens (an end closes or breaks, a reader is slow) the pair is set aside, together with what was read
 * and not yet taken, and Python is told; everything difficult is done there, by the code that does it without
 * this library too. So nothing here waits, retries, times out or decides.
 *
 * Who calls: relay.py, by ctypes; no function here knows of Python. `relay_join`, `relay_part` and
 * `relay_aside` may be called from any thread, and wait for one batch at most (`hold`).
 *
 * What it keeps to:
 * - It works on descriptors of its own (dup), closed by `relay_part` alone. Whoever forgets to part a pair
 *   leaks a connection; one person's bytes can never come out of a descriptor that now is somebody else's.
 * - Bytes of one direction stay in order: they are read only once all before them were taken.
 * - A pair's memory outlives every event that may still name it: parted pairs are freed by the thread, behind
 *   a batch, and no batch that begins later can name them (`bury`).
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
    EVENTS = 32,             /* a batch: few enough that nobody waits long for the lock */
    PIECE = 64 * 1024,       /* read at once from one socket, at most */
    LEAST = 16 * 1024,       /* and at least, or what was read before is sent first */
    ARENA = 256 * 1024,
    LINGER = 20 * 1000,      /* nanoseconds, see `next_batch` */
};

enum state { CARRIED, ASIDE, PARTED };

struct pair;

struct end {
    struct pair *pair;
    int side;
};

struct pair {
    struct end ends[2];
    int fd[2];
    enum state state;
    char *left[2];           /* for fd[i]: read, and not taken by it */
    size_t left_size[2];
    int broken;              /* bit i: reading from fd[i] failed, and the kernel tells that once */
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
    int wake;                /* eventfd: the thread has something to bury, or to end */
    int news;                /* eventfd: there are pairs set aside */
    int stopping;
    int thick;               /* events come so close behind each other that sleeping costs more than looking */
    pthread_t thread;
    pthread_mutex_t turn, lock;
    struct pair *aside, *parted;
    char arena[ARENA];
};

/* What `relay_part` gives back. The caller frees data with `relay_free`. */
struct left {
    char *data[2];
    size_t size[2];
    int broken;
};

/* The thread takes the lock again right after it let go of it, so a plain mutex would let others wait for as
 * long as there is traffic. Whoever waits for the lock holds the turn meanwhile, and the thread queues behind. */
static void hold(struct relay *relay) {
    pthread_mutex_lock(&relay->turn);
    pthread_mutex_lock(&relay->lock);
    pthread_mutex_unlock(&relay->turn);
}

static void release(struct relay *relay) {
    pthread_mutex_unlock(&relay->lock);
}

static void ring(int eventfd) {
    uint64_t one = 1;
    /* Fails only if it rings already. */
    (void)!write(eventfd, &one, sizeof one);
}

static void hush(int eventfd) {
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

/* Pieces of pairs that were set aside earlier in this batch are sent as well: they were read before. */
static void send_pieces(struct relay *relay, struct piece *pieces, int count) {
    for (int i = 0; i < count; i++) {
        struct piece *piece = &pieces[i];
        struct pair *pair = piece->pair;
        ssize_t sent = send(pair->fd[piece->to], piece->data, piece->size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent == (ssize_t)piece->size)
            continue;
        if (sent < 0)
            sent = 0; /* full, or broken: then Python's own write fails as this one did */
        size_t rest = piece->size - (size_t)sent;
        char *copy = malloc(rest);
        if (copy == NULL) {
            pair->broken = 3; /* bytes are lost: both ends must learn that */
        } else {
            memcpy(copy, piece->data + sent, rest);
            pair->left[piece->to] = copy;
            pair->left_size[piece->to] = rest;
        }
        set_aside(relay, pair);
    }
}

/* First all that can be read, then all that was read: neighbours in the arena, and whoever is woken by the
 * first write does not get in the way of the other reads. A socket is named once in a batch, so there is at most one
 * piece for each direction of a pair. */
static void carry(struct relay *relay, struct epoll_event *events, int count) {
    struct piece pieces[EVENTS];
    int filled = 0;
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        struct end *end = events[i].data.ptr;
        if (end == NULL) {
            hush(relay->wake);
            continue;
        }
        struct pair *pair = end->pair;
        if (pair->state != CARRIED)
            continue;
        if (events[i].events & ~(uint32_t)EPOLLIN) { /* it ends or broke: Python reads what is left, and how */
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
        ring(relay->news);
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

static void bury(struct relay *relay) {
    while (relay->parted != NULL) {
        struct pair *pair = relay->parted;
        relay->parted = pair->next;
        free(pair);
    }
}

static int64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

/* Falling asleep and being woken costs both sides more than a message does. So while events come thick, it looks
 * again for a moment before it sleeps, and lets everybody else who wants the processor have it between two looks.
 * Once it had to sleep for longer than that moment, it sleeps at once. */
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
            abort(); /* the descriptor is ours: somebody closed it, and nothing carried would ever move again */
        }
        hold(relay);
        if (relay->stopping) {
            release(relay);
            return NULL;
        }
        carry(relay, events, count);
        bury(relay);
        release(relay);
    }
}

static int watch(struct relay *relay, int fd, uint32_t events, void *data) {
    struct epoll_event event = {.events = events, .data.ptr = data};
    return epoll_ctl(relay->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* A relay and its thread, or NULL. */
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

/* Readable while pairs are set aside that nobody has asked for. */
int relay_news(struct relay *relay) {
    return relay->news;
}

/* From now on the two are carried. NULL, with nothing changed: no descriptors or memory to be had. */
struct pair *relay_join(struct relay *relay, int one, int other) {
    struct pair *pair = calloc(1, sizeof *pair);
    if (pair == NULL)
        return NULL;
    pair->fd[0] = fcntl(one, F_DUPFD_CLOEXEC, 0);
    pair->fd[1] = fcntl(other, F_DUPFD_CLOEXEC, 0);
    for (int side = 0; side < 2; side++)
        pair->ends[side] = (struct end){pair, side};
    hold(relay); /* or an event of the first could find the second not there yet */
    int failed = pair->fd[0] < 0 || pair->fd[1] < 0
        || watch(relay, pair->fd[0], EPOLLIN | EPOLLRDHUP, &pair->ends[0])
        || watch(relay, pair->fd[1], EPOLLIN | EPOLLRDHUP, &pair->ends[1]);
    if (failed)
        end(relay, pair);
    release(relay);
    return failed ? NULL : pair;
}

/* A pair that was set aside and not yet named here, or NULL. */
struct pair *relay_aside(struct relay *relay) {
    hold(relay);
    struct pair *pair = relay->aside;
    if (pair != NULL)
        relay->aside = pair->next;
    else
        hush(relay->news);
    release(relay);
    return pair;
}

/* Ends it, whatever its state, and gives back what was read and not taken. Once for each pair: it is gone then. */
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
    ring(relay->wake); /* to bury it */
}

void relay_free(void *data) {
    free(data);
}

/* Ends the thread. Every pair has been parted before. */
void relay_close(struct relay *relay) {
    hold(relay);
    relay->stopping = 1;
    release(relay);
    ring(relay->wake);
    pthread_join(relay->thread, NULL);
    bury(relay);
    close(relay->epoll);
    close(relay->wake);
    close(relay->news);
    pthread_mutex_destroy(&relay->turn);
    pthread_mutex_destroy(&relay->lock);
    free(relay);
}
