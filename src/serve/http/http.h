#ifndef SERVE_HTTP_HTTP_H
#define SERVE_HTTP_HTTP_H
/* Private to this directory: connections and requests of libmicrohttpd (MHD), whose threads call what is in
 * exchange.c; connections.c ends those that have left or are too slow. */
#include <microhttpd.h>
#include <pthread.h>
#include "serve/fair_queue.h"
#include "serve/server.h"

/* RECEIVES: no whole request is here; ANSWERS: one is. `since`: seam.clock of the beginning of that state;
 * moved: when a part of the answer was last given to MHD. */
typedef enum { CONNECTION_RECEIVES, CONNECTION_ANSWERS } ConnectionState;

typedef struct HttpConnection {
    struct HttpConnection *next, *before;          /* the lock of the server */
    struct MHD_Connection *mhd;
    int             fd;
    char            client[CLIENT_NAME];
    pthread_mutex_t lock;                          /* below all other locks; of what follows */
    bool            suspended, gone;               /* gone: its client has left, which MHD does not see yet */
    ConnectionState state;
    int64_t         since;
} HttpConnection;

struct HttpServer {
    HttpServerConfig   config;
    struct MHD_Daemon *daemon;
    int                fd;                         /* that listens; -1: no more */
    bool               loopback;
    char               address[160];
    pthread_t          watcher;                    /* where `watched` */
    bool               watched;
    pthread_mutex_t    lock;
    pthread_cond_t     tick;
    HttpConnection    *first;                      /* all that are open */
    bool               drains, ends;
};

/* ---- connections.c ---- */
void connection_notify(void *server, struct MHD_Connection *mhd, void **context,
                       enum MHD_ConnectionNotificationCode code);
HttpConnection *connection_of(struct MHD_Connection *mhd);
void connection_set(HttpConnection *connection, ConnectionState state);
bool connection_gone(HttpConnection *connection);
/* MHD calls nothing for a suspended connection. Both are as AnswerWait wants them. */
void connection_suspend(void *connection);
void connection_resume (void *connection);
/* The thread that looks ten times a second for clients that left and for limits that are over. */
void *connections_watch(void *server);
/* Whether any connection has a request that is not answered. */
bool connections_answer(HttpServer *server);

/* ---- exchange.c ---- */
enum MHD_Result exchange_handle(void *server, struct MHD_Connection *mhd, const char *path,
                                const char *method, const char *version, const char *data, size_t *bytes,
                                void **context);
void exchange_end(void *server, struct MHD_Connection *mhd, void **context,
                  enum MHD_RequestTerminationCode code);

/* ---- page.c ---- */
/* The page, with `nonce` where its style and its script name one. NO_MEMORY */
Status server_page_write(Buffer *out, const char *nonce);
#endif
