/* Ranks as threads in a child process that lose a message, sleep, or meet a jumping clock; what the watchdog says of it. */
#include "comm/watchdog.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "base/array.h"
#include "base/seam.h"
#include "comm/heartbeat_tcp.h"
#include "comm/transport.h"
#include "base/testing.h"
#include "comm/tcp_ranks.h"

static double limit = 0.6;

typedef struct { int32_t mine, all[8]; Queue q; Comm *world, *pair; } Scene;
typedef void Act(Scene *scene, int rank);

static void gather(Scene *scene, Comm *comm)
{
    int64_t size = comm_size(comm);
    comm_all_gather(comm, &scene->q, tensor_at(scene->all, I32, &size, 1), tensor_at(&scene->mine, I32, (int64_t[]){ 1 }, 1));
}

static Status scene_body(Transport *transport, void *context)
{
    Scene     scene = { .mine = transport->rank };
    Watchdog *watchdog;
    int       rank = transport->rank, pair[2] = { rank / 2 * 2, rank / 2 * 2 + 1 };
    scene.world = comm_world(transport);
    scene.pair = comm_open(scene.world, "tp", pair, 2);
    TRY(watchdog_open(&watchdog, scene.world, limit));
    TRY(queue_open(&scene.q, "ref", 1, NULL));
    thread_context()->step = 40;
    (*(Act **)context)(&scene, rank);
    queue_close(&scene.q);
    watchdog_close(watchdog, scene.world);
    comm_close(scene.pair);
    comm_close(scene.world);
    return OK;
}

static void scene_play(void *act)
{
    if (transport_threads_run(4, scene_body, act) != OK) _exit(1);
}

static Ended play(Act *act)
{
    return run_in_child(scene_play, &act);
}

/* ---- lost messages ---- */
static bool lose_a_gather(int rank, const char *what, long number)
{
    return !(rank == 2 && number == 3 && strcmp(what, "all-gather") == 0);
}

static bool lose_a_send(int rank, const char *what, long number)
{
    return !(rank == 0 && number == 1 && strcmp(what, "send") == 0);
}

static void gathers(Scene *scene, int rank)
{
    (void)rank;
    for (int i = 0; i < 8; i++) gather(scene, scene->pair);
}

static void sends(Scene *scene, int rank)
{
    Tensor x = tensor_at(&scene->mine, I32, (int64_t[]){ 1 }, 1);
    for (int i = 0; i < 2 && rank < 2; i++)
        comm_wait(scene->pair, rank == 0 ? comm_send_begin(scene->pair, &scene->q, x, 1)
                                         : comm_recv_begin(scene->pair, &scene->q, x, 0));
    sleep(3);
}

static void a_lost_message_is_named_by_its_collective(void **state)
{
    (void)state;
    seam.deliver = lose_a_gather;
    Ended ended  = play(gathers);
    assert_int_equal(ended.exit_code, 3);
    assert_string_equal(ended.text, "jotun: ranks 2, 3 have waited 0.6 s in all-gather #3 of tp, step 40, and all are in it: "
                                    "a message was lost; the job is stopped\n");
    seam.deliver = lose_a_send;
    ended        = play(sends);
    seam.deliver = seam_system.deliver;
    assert_int_equal(ended.exit_code, 3);
    assert_string_equal(ended.text, "jotun: rank 1 has waited 0.6 s in recv #1 of tp, step 40; rank 0 is not in it "
                                    "(last: send #0 of tp, step 40); the job is stopped\n");
}

/* ---- who holds up whom: 2 waits in tp for 3, which sleeps; the others wait in the world for both ---- */
static void queue_of_waiters(Scene *scene, int rank)
{
    if (rank == 3) sleep(3);
    if (rank >= 2) gather(scene, scene->pair);
    gather(scene, scene->world);
}

static void the_head_of_the_queue_is_blamed(void **state)
{
    (void)state;
    Ended ended = play(queue_of_waiters);
    assert_int_equal(ended.exit_code, 3);
    assert_contains(ended.text, "jotun: rank 2 has waited 0.6 s in all-gather #0 of tp, step 40; rank 3 is not in it (last: ");
}

/* ---- no false alarms ---- */
static void works_long(Scene *scene, int rank)
{
    (void)rank;
    gather(scene, scene->world);
    usleep(1500000);                                     /* all alike, so that none waits long for another */
    gather(scene, scene->world);
}

static atomic_int_fast64_t jump;
static int64_t jumping_clock(void)
{
    return seam_system.clock() + atomic_load(&jump);
}

static void jumps(Scene *scene, int rank)
{
    for (int i = 0; i < 4; i++) {
        usleep(rank == 1 ? 300000 : 1000);               /* so that the others sit in a wait at the jump */
        if (rank == 1) atomic_fetch_add(&jump, (int64_t)3600 * 1000000000);
        gather(scene, scene->world);
    }
}

/* So a process finds the clock that is stopped and continued between two looks at it. */
static int64_t clock_that_jumps_at_each_look(void)
{
    return seam_system.clock() + atomic_fetch_add(&jump, (int64_t)3600 * 1000000000);
}

static void waits_twice(Scene *scene, int rank)
{
    for (int i = 0; i < 2; i++) {
        usleep(rank == 1 ? 600000 : 1000);               /* the watchdog looks each 0.25 s */
        gather(scene, scene->world);
    }
}

/* The limits are far from the waits, which a busy machine prolongs, and from the work or the jumps. */
static void long_work_and_a_jumping_clock_are_no_alarm(void **state)
{
    (void)state;
    limit = 1;
    Ended worked = play(works_long);
    limit      = 60;
    seam.clock = jumping_clock;
    Ended jumped = play(jumps);
    seam.clock = clock_that_jumps_at_each_look;
    Ended stopped = play(waits_twice);
    seam.clock = seam_system.clock;
    limit      = 0.6;
    const Ended *all[] = { &worked, &jumped, &stopped };
    for (int i = 0; i < 3; i++) {
        assert_string_equal(all[i]->text, "");
        assert_int_equal(all[i]->exit_code, 0);
    }
}

/* ---- work on files: others wait for it longer than the limit, one of them behind another ---- */
static int no_sync(int fd)
{
    (void)fd;
    __atomic_fetch_add(&thread_context()->file_calls, 1, __ATOMIC_RELAXED);       /* as the system's own call through the seam counts */
    return 0;
}

static void saves(Scene *scene, int rank, int syncs, useconds_t each)
{
    if (rank == 3) watchdog_work(scene->world, "saving");
    for (int i = 0; rank == 3 && i < syncs; i++) {
        usleep(each);
        seam.sync(-1);
    }
    if (rank >= 2) gather(scene, scene->pair);
    gather(scene, scene->world);
    if (rank == 3) watchdog_work(scene->world, NULL);
    gather(scene, scene->world);
}

static void saves_slowly(Scene *scene, int rank) { saves(scene, rank, 8, 500000); }
static void saves_no_more(Scene *scene, int rank) { saves(scene, rank, 2, 4500000); }

static void work_on_files_has_a_limit_of_its_own(void **state)
{
    (void)state;
    limit     = 0.3;
    seam.sync = no_sync;
    Ended ended = play(saves_slowly);                        /* 4 s in all, more than 10 limits, and never that long without a sync */
    assert_string_equal(ended.text, "");
    assert_int_equal(ended.exit_code, 0);
    ended = play(saves_no_more);
    seam.sync = seam_system.sync;
    limit     = 0.6;
    assert_int_equal(ended.exit_code, 3);
    assert_contains(ended.text, "jotun: rank 3 on host ");
    assert_contains(ended.text, " has made no progress for 3");
    assert_contains(ended.text, ", busy saving, 0 file operations done; ranks 0, 1, 2 wait for it; the job is stopped\n");
}

/* Where the work has ended, waiting counts from there on. */
static void forgets(Scene *scene, int rank)
{
    if (rank == 3) watchdog_work(scene->world, "saving");
    usleep(1000000);
    if (rank == 3) watchdog_work(scene->world, NULL);
    if (rank == 3) sleep(3);
    gather(scene, scene->world);
}

static void after_work_on_files_waiting_counts(void **state)
{
    (void)state;
    Ended ended = play(forgets);
    assert_int_equal(ended.exit_code, 3);
    assert_contains(ended.text, "jotun: ranks 0, 1, 2 have waited 0.6 s in all-gather #2 of world, step 40; rank 3 is not in it");
}

/* ---- a rank that ends while others need it ---- */
static Status leaves_early(Transport *transport, void *context)
{
    (void)context;
    Comm *world;
    world = comm_world(transport);
    comm_barrier(world);
    if (transport->rank == 2) return fail(BAD_FILE, "corpus.bin is cut");
    comm_barrier(world);
    return OK;
}

static void leave_early(void *context)
{
    transport_threads_run(3, leaves_early, context);
}

static void a_rank_that_ends_is_not_waited_for(void **state)
{
    (void)state;
    Ended ended = run_in_child(leave_early, NULL);
    assert_int_equal(ended.exit_code, 3);
    assert_contains(ended.text, "in barrier: waits for rank 2, which has ended: corpus.bin is cut");
}

/* What could not be opened for lack of memory is closed like the rest. */
static void no_heartbeat_is_closed(void **state)
{
    (void)state;
    heartbeat_close(NULL);
}

/* Waits for one frame. */
static ReceivedState receive(int fd, ReceivedFrame *got, int capacity)
{
    ReceivedState state;
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    while ((state = heartbeat_tcp_recv(fd, got, 0, capacity)) == RECEIVED_PART)
        assert_int_equal(poll(&ready, 1, 20000), 1);
    return state;
}

/* Names that a frame brings are text, whatever the other end has written. */
static void names_in_a_frame_end(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    HeartbeatFrame sent;
    ReceivedFrame  got = { .count = 0 };
    memset(&sent, 'x', sizeof sent);
    sent.kind    = FRAME_PROGRESS;
    sent.members = sent.rank = sent.victim = 0;
    heartbeat_tcp_send(pair[0], &(UnsentBytes){ 0 }, &sent, NULL);
    assert_int_equal(heartbeat_tcp_recv(pair[1], &got, 0, 1), RECEIVED_FRAME);
    const char *name[] = { got.frame.progress.comm, got.frame.progress.verb, got.frame.progress.work };
    for (int i = 0; i < 3; i++) assert_int_equal(strnlen(name[i], HEARTBEAT_NAME), HEARTBEAT_NAME - 1);
    close(pair[0]);
    close(pair[1]);
}

/* A reader that stops for a while gets whole frames afterwards, and the goodbye, though the system took only a part of one. */
static void a_slow_reader_gets_whole_frames(void **state)
{
    (void)state;
    enum { MEMBERS = 4096 };
    static int members[MEMBERS];
    int pair[2], small = 4096, frames = 0;
    UnsentBytes   unsent = { 0 };
    ReceivedFrame got    = { .count = 0 };
    HeartbeatFrame sent  = { .kind = FRAME_PROGRESS, .members = MEMBERS };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    for (; unsent.count == 0 && frames < 1000; frames++) {
        members[0] = members[MEMBERS - 1] = frames;
        sent.progress.number = frames;
        heartbeat_tcp_send(pair[0], &unsent, &sent, members);
    }
    assert_true(unsent.count > 0 && unsent.count < sizeof sent + sizeof members);
    heartbeat_tcp_send(pair[0], &unsent, &sent, members);          /* dropped */
    heartbeat_tcp_send(pair[0], &unsent, &(HeartbeatFrame){ .kind = FRAME_GOODBYE }, NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(pair[1]);
        heartbeat_tcp_leave(pair[0], &unsent);
        _exit(0);
    }
    close(pair[0]);
    for (int i = 0; i < frames; i++) {
        assert_int_equal(receive(pair[1], &got, MEMBERS), RECEIVED_FRAME);
        assert_int_equal(got.frame.kind, FRAME_PROGRESS);
        assert_int_equal(got.frame.progress.number, i);
        assert_true(got.members[0] == i && got.members[MEMBERS - 1] == i);
    }
    assert_int_equal(receive(pair[1], &got, MEMBERS), RECEIVED_FRAME);
    assert_int_equal(got.frame.kind, FRAME_GOODBYE);
    assert_int_equal(receive(pair[1], &got, MEMBERS), RECEIVED_CLOSED);
    close(pair[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    free(got.members);
    free(unsent.bytes);
}

/* A writer that stops in the middle of a frame has not closed, and the reader does not wait for the rest. */
static void a_frame_in_two_parts_is_one_frame(void **state)
{
    (void)state;
    struct { HeartbeatFrame frame; int members[2]; } sent = { { .kind = FRAME_PROGRESS, .members = 2 }, { 7, 9 } };
    const size_t bytes = sizeof sent.frame + sizeof sent.members;
    const size_t cuts[] = { 1, sizeof sent.frame - 1, sizeof sent.frame, sizeof sent.frame + 5 };
    int pair[2];
    ReceivedFrame got = { .count = 0 };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        sent.frame.progress.number = (int64_t)i;
        assert_int_equal(send(pair[0], &sent, cuts[i], 0), cuts[i]);
        for (int again = 0; again < 2; again++) assert_int_equal(heartbeat_tcp_recv(pair[1], &got, 0, 10), RECEIVED_PART);
        assert_int_equal(send(pair[0], (char *)&sent + cuts[i], bytes - cuts[i], 0), bytes - cuts[i]);
        assert_int_equal(heartbeat_tcp_recv(pair[1], &got, 0, 10), RECEIVED_FRAME);
        assert_int_equal(got.frame.progress.number, i);
        assert_true(got.members[0] == 7 && got.members[1] == 9);
    }
    assert_int_equal(send(pair[0], &sent, 1, 0), 1);
    close(pair[0]);
    assert_int_equal(heartbeat_tcp_recv(pair[1], &got, 0, 10), RECEIVED_CLOSED);
    close(pair[1]);
    free(got.members);
}

/* Ranks index arrays, so one that does not exist is no frame, wherever it stands. */
static void a_frame_of_no_rank_is_invalid(void **state)
{
    (void)state;
    const struct { HeartbeatFrame frame; int members[2]; } bad[] = {
        { { .kind = 0, .rank = 1 }, { 0 } },
        { { .kind = FRAME_STOP + 1, .rank = 1 }, { 0 } },
        { { .kind = FRAME_PROGRESS, .rank = 0 }, { 0 } },
        { { .kind = FRAME_PROGRESS, .rank = 4 }, { 0 } },
        { { .kind = FRAME_STOP, .rank = 1, .victim = 4 }, { 0 } },
        { { .kind = FRAME_STOP, .rank = 1, .victim = -2 }, { 0 } },
        { { .kind = FRAME_PROGRESS, .rank = 1, .members = -1 }, { 0 } },
        { { .kind = FRAME_PROGRESS, .rank = 1, .members = 5 }, { 0 } },
        { { .kind = FRAME_PROGRESS, .rank = 1, .members = 2 }, { 3, 4 } },
        { { .kind = FRAME_PROGRESS, .rank = 1, .members = 2 }, { -1, 0 } },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        int pair[2];
        ReceivedFrame got = { .count = 0 };
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        assert_int_equal(send(pair[0], &bad[i], sizeof bad[i], 0), sizeof bad[i]);
        if (heartbeat_tcp_recv(pair[1], &got, 1, 4) != RECEIVED_INVALID) fail_msg("frame %zu is taken", i);
        close(pair[0]);
        close(pair[1]);
        free(got.members);
    }
}

/* The next descriptor above `fd` of a socket that has the option; -1: none. */
static int socket_with(int fd, int option)
{
    while (++fd < 1024) {
        struct timeval value = { 0 };                        /* an int or a time */
        socklen_t size = sizeof value;
        if (getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value.tv_sec != 0) return fd;
    }
    return -1;
}

/* Both ends of a watchdog's connection are in this process. What one of them gets is named, and not followed. */
static Status sends_garbage(Transport *transport, void *context)
{
    Comm     *world;
    Watchdog *watchdog;
    char      garbage[1000];
    (void)context;
    world = comm_world(transport);
    TRY(watchdog_open(&watchdog, world, 60));
    memset(garbage, 'x', sizeof garbage);
    int fd = socket_with(STDERR_FILENO, SO_RCVTIMEO);
    CHECK(transport->rank == 0 || send(fd, garbage, sizeof garbage, 0) == (ssize_t)sizeof garbage, "no connection");
    pause();
    return OK;
}

static void send_garbage(void *context)
{
    alarm(30);
    tcp_ranks_run(2, sends_garbage, context);
}

static void what_is_no_heartbeat_is_named(void **state)
{
    (void)state;
    Ended ended = run_in_child(send_garbage, NULL);
    assert_contains(ended.text, "jotun: the watchdog's connection from rank ");
    assert_contains(ended.text, " is broken: what comes on it is no heartbeat; last seen in ");
    assert_int_equal(ended.exit_code, 3);
}

/* ---- strangers before the ranks ---- */
/* Rank 1 connects them once rank 0 listens, before it agrees on that: no rank has the address yet. A third is silent, a third ends
 * in a hello, a third is garbage. */
enum { STRANGERS = 120 };
static bool strangers_come_first(int rank, const char *what, long number)
{
    static atomic_bool come;
    char garbage[60] = "no hello";
    int  listener = -1;
    (void)number;
    if (rank != 1 || strcmp(what, "agree") != 0 || atomic_exchange(&come, true)) return true;
    while ((listener = socket_with(STDERR_FILENO, SO_ACCEPTCONN)) < 0) usleep(1000);
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    CHECK(getsockname(listener, (struct sockaddr *)&at, &size) == 0, "no address");
    for (int i = 0; i < STRANGERS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (struct sockaddr *)&at, size) == 0, "stranger %d is not connected", i);
        uint64_t magic = 0x6a6f74756e206832;
        if (i % 3 == 1) memcpy(garbage, &magic, sizeof magic);
        if (i % 3 > 0) send(fd, garbage, sizeof garbage, MSG_NOSIGNAL);
        memcpy(garbage, "no hello", sizeof magic);
    }
    return true;
}

static Status connects(Transport *transport, void *context)
{
    int   fd[4];
    Comm *world;
    UnsentBytes    unsent = { 0 };
    ReceivedFrame  got    = { .count = 0 };
    HeartbeatFrame frame  = { .kind = FRAME_PROGRESS, .rank = transport->rank };
    (void)context;
    world = comm_world(transport);
    TRY(heartbeat_tcp_open(fd, world, true));
    for (int r = 0; r < 4; r++) CHECK((fd[r] >= 0) == (transport->rank == 0 ? r > 0 : r == 0), "connection %d", r);
    if (transport->rank > 0) heartbeat_tcp_send(fd[0], &unsent, &frame, NULL);
    for (int r = 1; r < 4 && transport->rank == 0; r++) {
        struct pollfd ready = { .fd = fd[r], .events = POLLIN };
        CHECK(poll(&ready, 1, 20000) == 1 && heartbeat_tcp_recv(fd[r], &got, r, 4) == RECEIVED_FRAME, "rank %d sends no frame", r);
    }
    comm_barrier(world);
    for (int r = 0; r < 4; r++)
        if (fd[r] >= 0) close(fd[r]);
    comm_close(world);
    return OK;
}

static void connect_all(void *descriptors)
{
    struct rlimit few = { *(rlim_t *)descriptors, *(rlim_t *)descriptors };
    alarm(30);                                               /* 2 s for each stranger would be four minutes */
    if (few.rlim_cur) setrlimit(RLIMIT_NOFILE, &few);
    if (transport_threads_run(4, connects, NULL) != OK) {
        fprintf(stderr, "%s\n", fail_text());
        _exit(1);
    }
}

static void strangers_do_not_delay_the_ranks(void **state)
{
    (void)state;
    seam.deliver = strangers_come_first;
    Ended ended  = run_in_child(connect_all, &(rlim_t){ 0 });
    seam.deliver = seam_system.deliver;
    assert_int_equal(ended.signal, 0);
    assert_int_equal(ended.exit_code, 0);
}

/* A connection that is reset before rank 0 reads it, as for want of descriptors, is made again: the clock, which rank 0 asks before it
 * accepts, resets the first that has come. */
static int64_t clock_that_resets(void)
{
    static atomic_bool reset;
    int listener = thread_context()->rank == 0 && !atomic_load(&reset) ? socket_with(STDERR_FILENO, SO_ACCEPTCONN) : -1;
    struct pollfd ready = { .fd = listener, .events = POLLIN };
    if (listener >= 0 && poll(&ready, 1, 50) > 0) {
        int fd = accept(listener, NULL, NULL);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 }, sizeof(struct linger));
        close(fd);
        atomic_store(&reset, true);
    }
    return seam_system.clock();
}

static void a_reset_connection_is_made_again(void **state)
{
    (void)state;
    seam.clock  = clock_that_resets;
    Ended ended = run_in_child(connect_all, &(rlim_t){ 0 });
    seam.clock  = seam_system.clock;
    assert_string_equal(ended.text, "");
    assert_int_equal(ended.exit_code, 0);
}

static void too_few_descriptors_are_reported(void **state)
{
    (void)state;
    Ended ended = run_in_child(connect_all, &(rlim_t){ 20 });
    assert_int_equal(ended.exit_code, 1);
    assert_contains(ended.text, "the watchdog's connections to 3 ranks: this process needs ");
    assert_contains(ended.text, " descriptors, and its limit is 20: ulimit -n ");
}

/* TCP, because its end with unread bytes discards what was not sent yet. The buffers are as small as the system allows. */
static void tcp_pair(int pair[2])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    int small = 4096, listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    assert_int_equal(connect(pair[0], (struct sockaddr *)&at, sizeof at), 0);
    pair[1] = accept(listener, NULL, NULL);
    assert_true(pair[1] >= 0);
    close(listener);
}

/* A process that stops the job ends at once, with a part of a frame unsent and heartbeats unread. */
static void the_stop_arrives_behind_an_unsent_part(void **state)
{
    (void)state;
    enum { MEMBERS = 4096, GOODBYES = 60 };
    static int members[MEMBERS];
    int pair[2], frames = 0;
    UnsentBytes   unsent = { 0 };
    ReceivedFrame got    = { .count = 0 };
    HeartbeatFrame progress = { .kind = FRAME_PROGRESS, .members = MEMBERS }, heartbeat = { .kind = FRAME_PROGRESS };
    tcp_pair(pair);
    for (; unsent.count == 0 && frames < 1000; frames++) heartbeat_tcp_send(pair[0], &unsent, &progress, members);
    for (int i = 0; i < GOODBYES; i++)                       /* more than the reader's system takes ahead of it */
        heartbeat_tcp_send(pair[0], &unsent, &(HeartbeatFrame){ .kind = FRAME_GOODBYE }, NULL);
    heartbeat_tcp_send(pair[0], &unsent, &(HeartbeatFrame){ .kind = FRAME_STOP }, NULL);
    assert_true(unsent.count > sizeof progress);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(pair[1]);
        poll(&(struct pollfd){ .fd = pair[0], .events = POLLIN }, 1, 20000);        /* until the reader runs */
        heartbeat_tcp_flush((int[]){ -1, pair[0] }, (UnsentBytes[]){ { 0 }, unsent }, 2, true);
        _exit(0);
    }
    close(pair[0]);
    assert_int_equal(send(pair[1], &heartbeat, sizeof heartbeat, 0), sizeof heartbeat);
    for (int i = 0; i < frames; i++) assert_int_equal(receive(pair[1], &got, MEMBERS), RECEIVED_FRAME);
    for (int i = 0; i < GOODBYES; i++) {
        if (i % 12 == 0) usleep(10000);                       /* the system has taken all, and has not sent all */
        assert_int_equal(receive(pair[1], &got, MEMBERS), RECEIVED_FRAME);
        assert_int_equal(got.frame.kind, FRAME_GOODBYE);
    }
    assert_int_equal(receive(pair[1], &got, MEMBERS), RECEIVED_FRAME);
    assert_int_equal(got.frame.kind, FRAME_STOP);
    close(pair[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    free(got.members);
    free(unsent.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_message_is_named_by_its_collective),
        cmocka_unit_test(the_head_of_the_queue_is_blamed),
        cmocka_unit_test(long_work_and_a_jumping_clock_are_no_alarm),
        cmocka_unit_test(work_on_files_has_a_limit_of_its_own),
        cmocka_unit_test(after_work_on_files_waiting_counts),
        cmocka_unit_test(a_rank_that_ends_is_not_waited_for),
        cmocka_unit_test(no_heartbeat_is_closed),
        cmocka_unit_test(names_in_a_frame_end),
        cmocka_unit_test(a_slow_reader_gets_whole_frames),
        cmocka_unit_test(a_frame_in_two_parts_is_one_frame),
        cmocka_unit_test(a_frame_of_no_rank_is_invalid),
        cmocka_unit_test(what_is_no_heartbeat_is_named),
        cmocka_unit_test(strangers_do_not_delay_the_ranks),
        cmocka_unit_test(a_reset_connection_is_made_again),
        cmocka_unit_test(too_few_descriptors_are_reported),
        cmocka_unit_test(the_stop_arrives_behind_an_unsent_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
