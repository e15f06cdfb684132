/* Looking into .bin/.idx: jotun data info PREFIX, jotun data cat PREFIX */
#include <inttypes.h>
#include <stdio.h>
#include "base/log.h"
#include "cli/command.h"
#include "conf/conf.h"
#include "data/shard.h"
#include "text/bytes.h"

static Status info(const Shard *shard)
{
    int64_t shortest = shard->sequences ? INT64_MAX : 0, longest = 0, empty = 0;
    char bytes[24];
    for (int64_t s = 0; s < shard->sequences; s++) {
        int64_t length = shard_length(shard, s);
        if (length < shortest) shortest = length;
        if (length > longest)  longest  = length;
    }
    for (int64_t d = 0; d < shard->documents; d++) empty += shard_document(shard, d) == shard_document(shard, d + 1);
    printf("file       %s\n", shard->bin.path);
    printf("tokens     %" PRId64 " (%s, %s)\n", shard->tokens, shard->width == 2 ? "uint16" : "int32",
           log_bytes(bytes, (double)shard->bin.size));
    printf("documents  %" PRId64 " (%" PRId64 " empty)\n", shard->documents, empty);
    printf("sequences  %" PRId64 " (%" PRId64 " to %" PRId64 " tokens)\n", shard->sequences, shortest, longest);
    return OK;
}

static Status token_print(const Shard *shard, const Tokenizer *t, int64_t at)
{
    int32_t id = shard_token(shard, at);
    if (id < 0 || id >= t->vocabulary)
        return fail(BAD_FILE, "%s: byte %" PRId64 ": token %d is none of the tokenizer bytes, the only one that"
                    " `data cat` knows yet", shard->bin.path, at * shard->width, id);
    TextPiece piece = t->decode(t, id);
    fwrite(piece.text, 1, (size_t)piece.bytes, stdout);
    return OK;
}

/* A document a line, as it was; ends of documents are no text. */
static Status cat(const Shard *shard)
{
    int64_t at = 0;
    for (int64_t d = 0; d < shard->documents && !ferror(stdout); d++) {
        int64_t next = shard_document(shard, d + 1);
        int64_t end  = next < shard->sequences ? shard_start(shard, next) : shard->tokens;
        for (; at < end; at++) TRY(token_print(shard, &bytes_tokenizer, at));
        putchar('\n');
    }
    return OK;
}

static Status look(int argc, char **argv, Status (*at)(const Shard *))
{
    Options o;
    Shard   shard = { 0 };
    Status  status = options_parse(&o, FOR_DATA, argc, argv);
    if (status == OK) status = options_expect(&o, 1, "PREFIX");
    if (status == OK) status = shard_open(&shard, o.words.text[0]);
    if (status == OK) status = at(&shard);
    shard_close(&shard);
    options_close(&o);
    return status;
}

Status cmd_data_info(int argc, char **argv) { return look(argc, argv, info); }
Status cmd_data_cat (int argc, char **argv) { return look(argc, argv, cat); }
