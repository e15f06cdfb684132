/* Addresses of IPv4 and IPv6: as text, resolved, on the route to another one; a port that is kept is given to nobody and can be listened at. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/testing.h"
#include "comm/socket.h"

static SocketAddress address_of(const char *host, int port)
{
    SocketAddress a;
    const char *why;
    if (socket_resolve(&a, 1, host, port, &why) != 1) fail_msg("%s: %s", host, why);
    return a;
}

static void expect_text(const char *host, int port, const char *text, bool loopback)
{
    char out[SOCKET_TEXT];
    SocketAddress a = address_of(host, port);
    assert_string_equal(socket_text(out, &a), text);
    assert_string_equal(socket_ip(out, &a), host);
    assert_int_equal(socket_is_loopback(&a), loopback);
}

static void texts(void **state)
{
    (void)state;
    expect_text("127.0.0.1", 80, "127.0.0.1:80", true);
    expect_text("127.0.1.1", 65535, "127.0.1.1:65535", true);
    expect_text("198.18.0.1", 1, "198.18.0.1:1", false);
    expect_text("::1", 29501, "[::1]:29501", true);
    expect_text("2001:db8::7f", 1, "[2001:db8::7f]:1", false);
    SocketAddress none;
    const char *why = NULL;
    assert_int_equal(socket_resolve(&none, 1, "no host has this name", 1, &why), 0);
    assert_non_null(why);
}

static void routes(void **state)
{
    char out[SOCKET_TEXT];
    SocketAddress own, to = address_of("127.0.0.5", 0);
    (void)state;
    assert_true(socket_route(&own, &to));
    assert_string_equal(socket_ip(out, &own), "127.0.0.1");
    assert_int_equal(own.port, 0);
}

static void kept_ports(void **state)
{
    SocketAddress here = address_of("127.0.0.1", 0), own;
    uint16_t port = 0, same, other = 0;
    (void)state;
    int kept = socket_reserve(&here, &port);
    assert_true(kept >= 0 && port > 0);
    same = port;
    int listener = socket_listen(&here, &same);
    assert_true(listener >= 0 && same == port);
    assert_true(socket_listen(&here, &same) < 0 && errno == EADDRINUSE);
    int every = socket_listen(NULL, &other);
    assert_true(every >= 0 && other > 0 && other != port && socket_own(&own, every));
    here.port = port;
    int end = socket_connect(&here);
    SocketAddress there;
    assert_true(end >= 0 && socket_other(&there, end) && there.port == port && socket_error(end) == 0);
    close(end);
    close(every);
    close(listener);
    close(kept);
}

/* With the value that the message asks for there are enough, with one less there are not. */
static void need_descriptors(void *limit)
{
    struct rlimit files = { *(rlim_t *)limit, *(rlim_t *)limit };
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) _exit(2);
    if (socket_raise_limit(1000, "a test with %d", 1000) == OK) _exit(0);
    fprintf(stderr, "%s\n", fail_text());
    _exit(1);
}

static void limits_of_descriptors(void **state)
{
    (void)state;
    Ended ended = run_in_child(need_descriptors, &(rlim_t){ 900 });
    const char *says = "and its limit is 900: ulimit -n ";
    assert_int_equal(ended.exit_code, 1);
    assert_contains(ended.text, "a test with 1000: this process needs 10");
    assert_contains(ended.text, says);
    rlim_t wanted = (rlim_t)atoi(strstr(ended.text, says) + strlen(says));
    assert_true(wanted > 1000);
    assert_int_equal(run_in_child(need_descriptors, &wanted).exit_code, 0);
    wanted--;
    assert_int_equal(run_in_child(need_descriptors, &wanted).exit_code, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(texts), cmocka_unit_test(routes), cmocka_unit_test(kept_ports), cmocka_unit_test(limits_of_descriptors) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
