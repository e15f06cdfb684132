#ifndef SERVE_HTTP_HTTP_H
#define SERVE_HTTP_HTTP_H
/* Private to this directory: connections and requests of libmicrohttpd (MHD), whose threads call what is in
 * exchange.c; request_head.c says which requests are taken, connections.c ends those that have left or are
 * too slow. */
#include <microhttpd.h>
#include <pthread.h>
#include "serve/request_fields.h"
#include "serve/server.h"

/* IDLE: no head of a request that is taken is here; RECEIVES: one is; ANSWERS: a whole request is. */
typedef enum { CONNECTION_IDLE, CONNECTION_RECEIVES, CONNECTION_ANSWERS } ConnectionState;

typedef struct HttpConnection {
    struct HttpConnection *next, *before;          /* the lock of the server */
    struct MHD_Connection *mhd;
    int             fd;
    char            client[CLIENT_NAME];
    pthread_mutex_t lock;                          /* below all other locks; of what follows */
    bool            suspended, gone;               /* gone: its client has left, which MHD does not see yet */
    bool            known, ended;                  /* known: a request of it was taken; ended: for others */
    bool            lingers;                       /* of MHD's thread */
    ConnectionState state;
    int64_t         since;                         /* seam.clock of the beginning of that state */
} HttpConnection;

/* A socket of a connection that MHD has closed, read until its client closes it too, or `until` */
enum { LINGERING_MOST = 64 };
typedef struct { int fd; int64_t until; } LingeringSocket;

struct HttpServer {
    HttpServerConfig   config;
    struct MHD_Daemon *daemon;
    int                fd;                         /* that listens, until it drains; -1: none yet */
    bool               loopback;
    char               address[160];
    pthread_t          watcher;                    /* where `watched` */
    bool               watched;
    pthread_mutex_t    lock;
    pthread_cond_t     tick;
    HttpConnection    *first;                      /* all that are open */
    LingeringSocket    linger[LINGERING_MOST];
    int                lingering;
    bool               drains, ends;
};

/* ---- connections.c ---- */
void connection_notify(void *server, struct MHD_Connection *mhd, void **context,
                       enum MHD_ConnectionNotificationCode code);
HttpConnection *connection_of(struct MHD_Connection *mhd);
void connection_set(HttpConnection *connection, ConnectionState state);
bool connection_gone(HttpConnection *connection);
/* Its client may still be sending when it is closed. */
void connection_linger(HttpConnection *connection);
/* MHD calls nothing for a suspended connection. Both are as AnswerWait wants them. */
void connection_suspend(void *connection);
void connection_resume (void *connection);
/* The thread that looks ten times a second for clients that left and for limits that are over. */
void *connections_watch(void *server);
/* Drops what came of sockets that linger, and closes those whose time is over. */
void connections_drain(HttpServer *server, int64_t now);
/* Whether any connection has a request that is not answered. */
bool connections_answer(HttpServer *server);

/* ---- request_head.c ---- */
/* false: `error` says why nothing more of this connection is read: the end of the request is not certain, or
 * its client may not ask. */
bool request_head_read  (RequestHead *head, ApiError *error, const HttpServer *server,
                         struct MHD_Connection *mhd, const char *method, const char *version);
/* Whose turn the request waits for: that of the token, where there are several; else that of the address. */
void request_head_client(char out[CLIENT_NAME], const RequestHead *head, const HttpServer *server,
                         const HttpConnection *connection, struct MHD_Connection *mhd);
/* Whether the body is JSON; else `error` is set. */
bool request_head_json  (ApiError *error, struct MHD_Connection *mhd);
/* Whether its client waits for an answer to the head before it sends the body. */
bool request_head_expects(struct MHD_Connection *mhd);

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
